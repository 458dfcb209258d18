"""`manage.py serve`: prepares the data folder and the database, then serves in this process until SIGTERM."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import connections

from relay import bootstrap, runtime, server
from relay.env import SettingsError

log = logging.getLogger("relay.serve")

LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class Command(BaseCommand):
    """Thin: relay/bootstrap.py prepares, relay/server.py serves."""

    help = "Serves the relay: API, dashboard and metrics."
    requires_system_checks: list[str] = []  # they belong to deployment, and cost a second at each start
    url = ""
    first: bootstrap.FirstStart | None = None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """--host, --port, --workers."""
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
        parser.add_argument("--port", type=port, default=8000, help="0 takes a free one (default: %(default)s)")
        parser.add_argument("--workers", type=workers, default=1, help="processes; above 1 needs RELAY_REDIS_URL")

    def handle(self, *args: Any, **options: Any) -> None:
        """Serves. Exit code 0 after SIGTERM or SIGINT; 2 and one line on standard error if it can't start."""
        try:
            self.serve(options["host"], options["port"], options["workers"])
        except (server.StartRefused, SettingsError) as error:
            self.stderr.write(f"token-relay: {error}", style_func=str)
            sys.exit(2)

    def serve(self, host: str, port: int, workers: int) -> None:
        """Raises StartRefused, SettingsError, and SystemExit when it has ended."""
        if workers > 1:
            needs = "" if settings.RELAY_REDIS_URL else " needs RELAY_REDIS_URL, and"
            raise server.StartRefused(
                f"--workers {workers}{needs} is not served by this version: its embedded engine serves one process. "
                "Use --workers 1."
            )
        os.umask(0o077)
        server.raise_file_limit()
        with bootstrap.lock_data_folder(settings.RELAY_DATA_DIR), server.listen(host, port) as listener:
            self.warn(host)
            bootstrap.prepare_database()
            self.first = bootstrap.first_start()
            connections.close_all()
            self.url = settings.RELAY_PUBLIC_URL or server.address(listener)
            config = server.server_config("relay.asgi:application", proxies=settings.RELAY_TRUSTED_PROXIES)
            try:
                server.run(server.Server(config, self.say_where, runtime.begin_shutdown), listener)
            finally:
                self.say_secrets()

    def warn(self, host: str) -> None:
        """Logs what is probably not meant: variables that nothing reads, and a server that answers to loopback names only."""
        for line in settings.RELAY_WARNINGS:
            log.warning(line)
        names = settings.ALLOWED_HOSTS
        if host not in LOOPBACK and not settings.DEBUG and set(names) <= {"localhost", "127.0.0.1", "[::1]"}:
            log.warning(
                "Listening on %s, but pages and configuration answer to %s only. "
                "Set RELAY_PUBLIC_URL or RELAY_ALLOWED_HOSTS.",
                host,
                ", ".join(names),
            )

    def say_where(self) -> None:
        """The lines that a start prints when it serves."""
        self.stdout.write(f"Dashboard: {self.url}")
        self.say_secrets()

    def say_secrets(self) -> None:
        """The first start's lines, once: also if the server then fails, as nobody can read them later."""
        first, self.first = self.first, None
        if first is not None:
            self.stdout.write(f"Operator: {first.operator}")
            self.stdout.write(f"Password: {first.password}")
            self.stdout.write(f"API key: {first.api_key}")
        self.stdout.flush()


def port(text: str) -> int:
    """A port number; 0 stands for a free one."""
    return bounded(text, 0, 65535)


def workers(text: str) -> int:
    """A number of processes."""
    return bounded(text, 1, 64)


def bounded(text: str, least: int, most: int) -> int:
    """A whole number within bounds, or argparse's error that says so."""
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
    return int(text)
