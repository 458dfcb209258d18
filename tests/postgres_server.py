"""A PostgreSQL of the tests' own, on a free port and in a fresh folder."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from glob import glob
from pathlib import Path

import psycopg

from tests.relay_server import free_port


def find_postgres() -> Path | None:
    """The folder of PostgreSQL's programs; Debian keeps them out of PATH."""
    found = shutil.which("pg_ctl") or max(glob("/usr/lib/postgresql/*/bin/pg_ctl"), default=None)
    return Path(found).parent if found else None


class PostgresServer:
    """Started when made. It refuses to run as root, so root lends it to `nobody`."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._user = "nobody" if os.geteuid() == 0 else None
        self._folder = Path(tempfile.mkdtemp(prefix="relay-postgres-"))  # short: it holds a socket
        self.port = free_port()
        if self._user:
            owner = pwd.getpwnam(self._user)
            os.chown(self._folder, owner.pw_uid, owner.pw_gid)
        self._run("initdb", "--auth=trust", "--username=relay", "--no-sync", "--encoding=UTF8", "--locale=C")
        options = f"-p {self.port} -k {self._folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self._run("pg_ctl", "--wait", "--silent", "-o", options, "-l", str(self._folder / "log"), "start")

    def new_database(self) -> str:
        """The URL of a new, empty database."""
        name = f"relay_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self._url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self._url(name)

    def stop(self) -> None:
        """Ends it and removes its folder."""
        self._run("pg_ctl", "--silent", "--mode=immediate", "stop")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _url(self, name: str) -> str:
        return f"postgresql://relay@127.0.0.1:{self.port}/{name}"

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._programs / program, "-D", self._folder / "data", *arguments],
            user=self._user,
            cwd="/",
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=60,
        )
