"""`manage.py serve` as a real process: first start, later starts, refusals, the end."""

from __future__ import annotations

import shlex
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.conftest import NewRelay
from tests.postgres_server import PostgresServer
from tests.relay_server import ROOT, RelayServer, environment


def serve(data_dir: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a serve that is expected to be refused."""
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "serve", *arguments],
        env=environment(data_dir, variables),
        capture_output=True,
        text=True,
        timeout=60,
    )


def refusal(result: subprocess.CompletedProcess[str]) -> str:
    """The one line of a refused start."""
    assert result.returncode == 2, result.stdout + result.stderr
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("token-relay: ")
    return line


def printed(server: RelayServer) -> list[str]:
    """What went to standard output: log lines begin with a date."""
    words = ("Dashboard: ", "Operator: ", "Password: ", "API key: ")
    return [line for line in server.log().splitlines() if line.startswith(words)]


def test_the_first_start_prints_where_who_and_what_and_later_ones_only_where(new_relay: NewRelay) -> None:
    server = new_relay()
    assert printed(server) == [
        f"Dashboard: {server.url}",
        "Operator: admin",
        f"Password: {server.password}",
        f"API key: {server.api_key}",
    ]
    assert len(server.password) >= 16
    begun = time.monotonic()
    server.restart()
    assert time.monotonic() - begun < 20
    assert printed(server)[4:] == [f"Dashboard: {server.url}"]
    with server.http() as client:
        assert client.get("/api/v1/pools").json()["items"] == []


def test_a_given_admin_password_counts_at_creation_only(new_relay: NewRelay) -> None:
    server = new_relay(env={"RELAY_ADMIN_PASSWORD": "correct horse battery"})
    assert "Password: correct horse battery" in printed(server)
    server.env["RELAY_ADMIN_PASSWORD"] = "another one entirely"
    server.restart()
    code = (
        "from django.contrib.auth import authenticate as a;"
        "print(a(username='admin', password='correct horse battery'), a(username='admin', password='another one entirely'))"
    )
    assert server.command("shell", "--no-imports", "-c", code) == "admin None\n"


def test_the_data_folder_and_what_is_secret_in_it_are_the_owners_alone(new_relay: NewRelay) -> None:
    server = new_relay()
    assert stat.S_IMODE(server.data_dir.stat().st_mode) == 0o700
    kept = [path for path in server.data_dir.rglob("*") if "tokenizers" not in path.parts]  # these are public
    assert {"secret_key", "relay.sqlite3", "engine"} <= {path.name for path in kept}
    for path in kept:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_a_second_serve_on_one_data_folder_is_refused(new_relay: NewRelay) -> None:
    server = new_relay()
    line = refusal(serve(server.data_dir, "--port", "0"))
    assert f"process {server.pid}" in line
    assert str(server.data_dir) in line


def test_the_lock_does_not_outlive_a_killed_server(new_relay: NewRelay) -> None:
    server = new_relay()
    server.kill9()
    server.start()
    assert httpx.get(f"{server.url}/healthz", trust_env=False).status_code == 200


def test_a_busy_port_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        line = refusal(serve(tmp_path / "data", "--port", str(port)))
    assert f"Port {port} on 127.0.0.1 is in use" in line
    assert not (tmp_path / "data" / "relay.sqlite3").exists()


def test_a_host_that_is_not_of_this_machine_is_refused(tmp_path: Path) -> None:
    assert "192.0.2.1" in refusal(serve(tmp_path / "data", "--host", "192.0.2.1", "--port", "0"))


def test_several_workers_are_refused_without_redis(tmp_path: Path) -> None:
    assert "RELAY_REDIS_URL" in refusal(serve(tmp_path / "data", "--workers", "2", "--port", "0"))


@pytest.mark.parametrize("arguments", [("--port", "70000"), ("--port", "http"), ("--workers", "0")])
def test_a_wrong_option_is_named_with_its_bounds(tmp_path: Path, arguments: tuple[str, str]) -> None:
    result = serve(tmp_path / "data", *arguments)
    assert result.returncode == 2
    assert "not a whole number from" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_unreachable_postgresql_is_refused_without_its_password(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"postgresql://me:hunter2@127.0.0.1:{closed.getsockname()[1]}/relay"
        line = refusal(serve(tmp_path / "data", "--port", "0", RELAY_DATABASE_URL=url))
    assert "RELAY_DATABASE_URL" in line
    assert "hunter2" not in line


def test_a_damaged_database_is_refused_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "relay.sqlite3").write_bytes(b"not a database, " * 500)
    line = refusal(serve(tmp_path, "--port", "0"))
    assert "not a database" in line
    assert str(tmp_path / "relay.sqlite3") in line


def test_on_postgresql_migrations_are_asked_for_and_then_it_serves(
    new_relay: NewRelay, postgres: PostgresServer, tmp_path: Path
) -> None:
    variables = {"RELAY_DATABASE_URL": postgres.new_database()}
    line = refusal(serve(tmp_path / "data", "--port", "0", **variables))
    advice = shlex.split(line.partition("Apply them: ")[2])
    assert advice == [sys.executable, str(ROOT / "manage.py"), "migrate"]
    subprocess.run([*advice, "--verbosity", "0"], env=environment(tmp_path / "data", variables), check=True, timeout=60)
    server = new_relay(env=variables, data_dir=tmp_path / "data")
    with server.http() as client:
        assert client.post("/api/v1/pools", json={"name": "one", "capacity": 1}).status_code == 201
    assert server.command("create_api_key", "--tenant", "search").startswith("relay_")


def test_an_unknown_variable_is_warned_of_and_the_server_starts(new_relay: NewRelay) -> None:
    server = new_relay(env={"RELAY_METRIC_TOKEN": "x"})
    assert "did you mean RELAY_METRICS_TOKEN?" in server.log()


def test_sigterm_answers_waiters_and_ends_in_time_with_code_0(new_relay: NewRelay) -> None:
    server = new_relay()
    with server.http() as client:
        client.post("/api/v1/pools", json={"name": "one", "capacity": 1}).raise_for_status()
        client.post("/api/v1/pools/one/acquire").raise_for_status()
        answers: list[httpx.Response] = []
        waiter = threading.Thread(target=lambda: answers.append(client.post("/api/v1/pools/one/acquire")))
        waiter.start()
        deadline = time.monotonic() + 10
        while client.get("/api/v1/pools/one").json()["waiting"] != 1 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert server.stop() < 10
        waiter.join(5)
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(503, "shutting-down")]
    assert int(answers[0].headers["retry-after"]) >= 1
    assert server.wait(1) == 0
    assert "Traceback" not in server.log()


def test_json_logs_are_for_machines(new_relay: NewRelay) -> None:
    server = new_relay(env={"RELAY_LOG_FORMAT": "json", "RELAY_NOTHING_OF_OURS": "1"})
    assert '"level": "warning"' in server.log()


def test_pages_carry_the_strict_policy_and_their_files_come_from_this_process(relay: RelayServer) -> None:
    with relay.http("") as client:
        page = client.get("/login/")
        assert page.status_code == 200
        assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["referrer-policy"] == "same-origin"
        assert page.headers["x-frame-options"] == "DENY"
        file = client.get("/static/admin/css/base.css")
        assert file.status_code == 200
        assert file.headers["content-type"].startswith("text/css")
        assert "access-control-allow-origin" not in file.headers
        etag = {"if-modified-since": file.headers["last-modified"]}
        assert client.get("/static/admin/css/base.css", headers=etag).status_code == 304


def test_a_foreign_host_name_is_refused(relay: RelayServer) -> None:
    with relay.http("") as client:
        assert client.get("/login/", headers={"host": "evil.example"}).status_code == 400


def test_forwarded_headers_of_strangers_count_for_nothing(relay: RelayServer) -> None:
    with relay.http("") as client:
        page = client.get("/login/", headers={"x-forwarded-proto": "https", "x-forwarded-host": "evil.example"})
        assert page.status_code == 200
        assert "evil.example" not in page.text
        assert "strict-transport-security" not in page.headers


def test_a_trusted_proxy_says_that_the_caller_came_over_https(new_relay: NewRelay) -> None:
    server = new_relay(
        env={"RELAY_PUBLIC_URL": "https://relay.example.org", "RELAY_TRUSTED_PROXIES": "127.0.0.0/8, ::1"}
    )
    assert "Dashboard: https://relay.example.org" in server.log()
    with server.http("") as client:
        secure = client.get("/login/", headers={"x-forwarded-proto": "https", "host": "relay.example.org"})
        assert "max-age=31536000" in secure.headers["strict-transport-security"]
        cookie = secure.headers["set-cookie"]
        assert "csrftoken" in cookie
        assert "Secure" in cookie
