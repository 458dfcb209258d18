"""The configuration database: SQLite in the data folder, or PostgreSQL by URL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dj_database_url

from relay.env import SettingsError

SQLITE_FILE = "relay.sqlite3"

# WAL lets readers go on beside the writer; BEGIN IMMEDIATE, because a read that turns into a write
# in a deferred transaction fails with "database is locked" without waiting.
SQLITE_OPTIONS: dict[str, Any] = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;",
}

# Persistent connections leak under ASGI (one for each of its threads), hence psycopg's pool.
POSTGRES_POOL: dict[str, Any] = {"min_size": 1, "max_size": 10, "timeout": 10}
CONNECT_TIMEOUT_S = 5

ALLOWED = "sqlite:////absolute/path or postgresql://user:password@host:5432/name"


def database(url: str | None, data_dir: Path) -> dict[str, Any]:
    """Django's DATABASES entry. Raises SettingsError, without the URL's text: there may be a password in it."""
    if url is None:
        return _sqlite(str(data_dir / SQLITE_FILE))
    scheme = url.partition(":")[0].lower()
    if scheme not in {"sqlite", "postgres", "postgresql"}:
        raise SettingsError(f"RELAY_DATABASE_URL has an unknown scheme. Allowed: {ALLOWED}.")
    try:
        config: dict[str, Any] = dict(dj_database_url.parse(url, conn_max_age=0, conn_health_checks=True))
    except Exception:
        raise SettingsError(f"RELAY_DATABASE_URL can't be read as a URL. Allowed: {ALLOWED}.") from None
    name = str(config.get("NAME") or "")
    if not name or (scheme == "sqlite" and (name == ":memory:" or not Path(name).is_absolute())):
        raise SettingsError(f"RELAY_DATABASE_URL names no database. Allowed: {ALLOWED}.")
    if scheme == "sqlite":
        return _sqlite(name)
    options = dict(config.get("OPTIONS") or {})
    options.setdefault("pool", POSTGRES_POOL)
    options.setdefault("connect_timeout", CONNECT_TIMEOUT_S)
    return {**config, "OPTIONS": options, "CONN_MAX_AGE": 0}


def _sqlite(name: str) -> dict[str, Any]:
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": name, "OPTIONS": SQLITE_OPTIONS, "CONN_MAX_AGE": 0}
