"""What all tests share: running servers, and the programs that some of them need."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from tests.postgres_server import PostgresServer, find_postgres
from tests.redis_server import PROGRAMS, RedisServer
from tests.relay_server import RelayServer

PASSWORD = "a password for tests"


class NewRelay:
    """Makes and starts servers of one test's own; they are stopped at its end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.servers: list[RelayServer] = []

    def __call__(self, env: Mapping[str, str] | None = None, data_dir: Path | None = None) -> RelayServer:
        server = RelayServer(data_dir or self._folder / f"data{len(self.servers)}", env)
        self.servers.append(server)
        return server.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows what a failed test's servers logged."""
    report = yield
    if report.when == "call" and report.failed and isinstance(item, pytest.Function):
        for server in servers_of(item.funcargs):
            report.sections.append((f"log of the server on port {server.port}", server.log()[-5000:]))
    return report


def servers_of(fixtures: Mapping[str, object]) -> list[RelayServer]:
    """The servers that a test uses."""
    shared, own = fixtures.get("relay"), fixtures.get("new_relay")
    return [
        *([shared] if isinstance(shared, RelayServer) else []),
        *(own.servers if isinstance(own, NewRelay) else []),
    ]


@pytest.fixture(scope="session")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayServer]:
    """A running server for all tests that leave it as they found it. Use `pool_name` for pools.

    Its password is given, for a generated one must be changed at the first sign-in.
    """
    server = RelayServer(tmp_path_factory.mktemp("relay") / "data", {"RELAY_ADMIN_PASSWORD": PASSWORD}).start()
    yield server
    server.stop()


@pytest.fixture
def new_relay(tmp_path: Path) -> Iterator[NewRelay]:
    """Starts servers of the test's own: `new_relay(env={...}, data_dir=path)`."""
    relays = NewRelay(tmp_path)
    yield relays
    for server in relays.servers:
        server.stop()


@pytest.fixture
def pool_name() -> str:
    """A pool's name that no other test uses."""
    return f"pool-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium."""
    return program("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def promtool() -> str:
    """The path of Prometheus's promtool."""
    return program("promtool")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL; `postgres.new_database()` is the URL of an empty database."""
    programs = find_postgres()
    if programs is None:
        missing("postgresql")
    server = PostgresServer(programs)
    yield server
    server.stop()


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    """A running Redis or Valkey of the test's own, empty."""
    server = RedisServer(program(*PROGRAMS))
    yield server
    server.kill()


def program(*names: str) -> str:
    """The path of the first of these programs. Skips the test without it; with CI=true fails it."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        missing(names[0])
    return found


def missing(name: str) -> NoReturn:
    """Skips the test for want of a program; with CI=true fails it."""
    unavailable(f"{name} is not installed")


def unavailable(why: str) -> NoReturn:
    """Skips the test for want of what cannot be had here; with CI=true, where all of it must be there, fails it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{why}, and with CI=true it must be there")
    pytest.skip(why)
