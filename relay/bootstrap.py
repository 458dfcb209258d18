"""What has to be in place before the server starts: the data folder's lock, the tables, and the first person and key."""

from __future__ import annotations

import fcntl
import os
import secrets
import shlex
import sys
from pathlib import Path
from typing import TextIO

import psycopg
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from msgspec import Struct

from relay.env import private_directory
from relay.server import StartRefused
from relay.tenants.changes import Actor, record, writing
from relay.tenants.keyring import SCOPES
from relay.tenants.keys import create_key
from relay.tenants.people import GENERATED

LOCK_FILE = "serve.lock"
OPERATOR = "admin"
TENANT = "default"


class FirstStart(Struct, frozen=True):
    """What the first start made, and shows once."""

    operator: str
    password: str
    api_key: str


def lock_data_folder(data_dir: Path) -> TextIO:
    """Makes the folder (0700) and takes it for this process until the file is closed. Raises StartRefused."""
    private_directory(data_dir)
    path = data_dir / LOCK_FILE
    try:
        file = open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+")  # noqa: SIM115
    except OSError as error:
        raise StartRefused(f"The lock file {path} can't be opened ({error.strerror}). Mend its permissions.") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = file.read(20).strip() or "unknown"
        file.close()
        raise StartRefused(
            f"Another serve (process {owner}) uses the data folder {data_dir}. Stop it, or set RELAY_DATA_DIR."
        ) from None
    file.seek(0)
    file.truncate()
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


def prepare_database() -> None:
    """Migrates SQLite; on PostgreSQL, where other nodes may be at work, only looks. Raises StartRefused."""
    try:
        if connection.vendor == "postgresql":
            # without the pool, which would try again for as long as callers may wait for a connection
            psycopg.connect(**connection.get_connection_params()).close()
        executor = MigrationExecutor(connection)
        unapplied = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except (DatabaseError, psycopg.Error) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        sqlite = connection.vendor == "sqlite"
        where = f"file {settings.DATABASES['default']['NAME']}" if sqlite else "server that RELAY_DATABASE_URL names"
        raise StartRefused(f"The database can't be used ({reason}). Check the {where}.") from None
    if not unapplied:
        return
    if connection.vendor != "sqlite":
        raise StartRefused(
            f"{len(unapplied)} migrations are not applied to the {connection.vendor} database. "
            f"Apply them: {shlex.join([sys.executable, sys.argv[0], 'migrate'])}"
        )
    call_command("migrate", interactive=False, verbosity=0)


def first_start() -> FirstStart | None:
    """Makes the operator and the first API key, once: None if anybody can log in already."""
    people = get_user_model().objects
    with writing():
        if people.exists():
            return None
        given = settings.RELAY_ADMIN_PASSWORD
        password = given or secrets.token_urlsafe(15)
        people.create_superuser(OPERATOR, password=password)
        actor = Actor("system", "bootstrap")
        record(
            actor,
            "person",
            OPERATOR,
            "create",
            None,
            {"name": OPERATOR, "role": "admin", **({} if given else GENERATED)},
        )
        key, _ = create_key(TENANT, "first key", SCOPES, actor, make_tenant=True)
    return FirstStart(OPERATOR, password, key)
