"""`manage.py create_api_key --tenant T`: makes a key; works in a running server within a second."""

from __future__ import annotations

import getpass
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.utils import OperationalError, ProgrammingError

from relay.http import Problem
from relay.tenants.changes import Actor
from relay.tenants.keyring import DEFAULT_SCOPES, SCOPES
from relay.tenants.keys import create_key


class Command(BaseCommand):
    """Prints the key, and nothing else, on standard output."""

    help = "Makes an API key and prints it. The tenant is made if it is missing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The command's options."""
        parser.add_argument("--tenant", required=True, help="whose key it is")
        parser.add_argument(
            "--scopes", default=",".join(DEFAULT_SCOPES), help=f"of {', '.join(SCOPES)}; default: %(default)s"
        )
        parser.add_argument("--name", default="", help="what it is for")

    def handle(self, *args: Any, **options: Any) -> None:
        """Makes the key."""
        scopes = [scope.strip() for scope in options["scopes"].split(",") if scope.strip()]
        try:
            key, _ = create_key(options["tenant"], options["name"], scopes, _actor(), make_tenant=True)
        except Problem as problem:
            raise CommandError(problem.detail, returncode=2) from None
        except (OperationalError, ProgrammingError) as error:
            raise CommandError(
                f"The database is not ready ({error}). Start the relay once (make run), or check RELAY_DATA_DIR."
            ) from None
        self.stdout.write(key)


def _actor() -> Actor:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return Actor("command", f"create_api_key ({user})")
