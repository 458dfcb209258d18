"""Set-up: settings that stop the start in one line, the environment's helpers, the make targets' set-up script."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from relay.databases import database
from relay.env import Environment, SettingsError, generated_secret, private_directory
from relay.logs import JsonFormatter
from relay.middleware import STRICT, content_security_policy
from tests.relay_server import ROOT, environment

SECRET = "a-database-password-that-must-not-be-shown"


def settings_of(data_dir: Path, code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs Python code in which `settings` are loaded as manage.py loads them."""
    program = f"from django.conf import settings; settings.INSTALLED_APPS; {code}"
    env = environment(data_dir, variables) | {"DJANGO_SETTINGS_MODULE": "relay.settings"}
    return subprocess.run([sys.executable, "-c", program], env=env, cwd=ROOT, capture_output=True, text=True)


def manage(data_dir: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a manage.py command."""
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    return subprocess.run(command, env=environment(data_dir, variables), capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("RELAY_DEBUG", "perhaps", "true or false"),
        ("RELAY_JOURNAL_SYNC", "never", "second, always"),
        ("RELAY_LOG_FORMAT", "xml", "console, json"),
        ("RELAY_LOG_LEVEL", "loud", "DEBUG, INFO"),
        ("RELAY_TOKEN_CACHE_MB", "-1", "1 to 1048576"),
        ("RELAY_TOKEN_CACHE_MB", "64MB", "1 to 1048576"),
        ("RELAY_TOKEN_CACHE_MB", "²", "1 to 1048576"),
        ("RELAY_PUBLIC_URL", "relay.example.org", "https://relay.example.org"),
        ("RELAY_PUBLIC_URL", "https://relay.example.org/path", "without path"),
        ("RELAY_PUBLIC_URL", "https://relay.example.org:99999", "https://relay.example.org"),
        ("RELAY_ALLOWED_HOSTS", "https://relay.example.org", "without scheme or port"),
        ("RELAY_TRUSTED_PROXIES", "10.0.0.0/99", "10.0.0.0/8"),
        ("RELAY_TRUSTED_PROXIES", "proxy", "IP addresses"),
        ("RELAY_DATA_DIR", __file__, "a folder"),
    ],
)
def test_a_wrong_value_stops_any_command_with_one_line_that_says_what_is_allowed(
    tmp_path: Path, name: str, value: str, allowed: str
) -> None:
    result = manage(tmp_path / "data", "check", **{name: value})
    assert result.returncode == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"token-relay: {name}=")
    assert value in line
    assert allowed in line


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"RELAY_DATABASE_URL": f"oracle://me:{SECRET}@db/relay"}, "RELAY_DATABASE_URL"),
        ({"RELAY_DATABASE_URL": f"postgresql://me:{SECRET}@db:port/relay"}, "RELAY_DATABASE_URL"),
        ({"RELAY_DATABASE_URL": f"postgresql://me:{SECRET}@db"}, "RELAY_DATABASE_URL"),
        ({"RELAY_DATABASE_URL": "sqlite://:memory:"}, "RELAY_DATABASE_URL"),
        ({"RELAY_SECRET_KEY": "short-" + SECRET[:20]}, "RELAY_SECRET_KEY"),
        ({"RELAY_REDIS_URL": f"http://:{SECRET}@cache:6379"}, "redis://host:6379/0"),
        ({"RELAY_METRICS_TOKEN": SECRET, "RELAY_METRICS_TOKEN_FILE": __file__}, "RELAY_METRICS_TOKEN_FILE"),
        ({"RELAY_METRICS_TOKEN_FILE": "/nowhere/token"}, "RELAY_METRICS_TOKEN_FILE='/nowhere/token'"),
        ({"RELAY_ADMIN_PASSWORD_FILE": os.devnull}, "RELAY_ADMIN_PASSWORD_FILE"),
    ],
)
def test_a_wrong_secret_stops_the_start_without_being_shown(
    tmp_path: Path, variables: dict[str, str], named: str
) -> None:
    result = manage(tmp_path / "data", "serve", **variables)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert named in line
    assert SECRET[:10] not in line


def test_a_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("  s3cret\n", encoding="utf-8")
    assert Environment({"RELAY_METRICS_TOKEN_FILE": str(tmp_path / "token")}).secret("RELAY_METRICS_TOKEN") == "s3cret"


def test_an_empty_variable_counts_as_unset() -> None:
    env = Environment({"RELAY_DEBUG": "", "RELAY_TOKEN_CACHE_MB": " ", "RELAY_METRICS_TOKEN": ""})
    assert env.flag("RELAY_DEBUG") is False
    assert env.whole("RELAY_TOKEN_CACHE_MB", 64, 1, 100) == 64
    assert env.secret("RELAY_METRICS_TOKEN") is None


def test_an_unknown_variable_is_warned_of_with_the_nearest_name() -> None:
    env = Environment({"RELAY_DATADIR": "x", "RELAY_ZZZZZZZZ": "x", "RELAY_API_KEY": "x", "HOME": "x"})
    env.text("RELAY_DATA_DIR")
    assert env.warnings() == [
        "RELAY_DATADIR is not a setting and is ignored; did you mean RELAY_DATA_DIR?",
        "RELAY_ZZZZZZZZ is not a setting and is ignored.",
    ]


@pytest.mark.parametrize(
    ("given", "origin"),
    [
        ("https://relay.example.org/", "https://relay.example.org"),
        ("http://10.0.0.1:8000", "http://10.0.0.1:8000"),
        ("https://[::1]:8443", "https://[::1]:8443"),
    ],
)
def test_a_public_url_becomes_an_origin(given: str, origin: str) -> None:
    assert Environment({"RELAY_PUBLIC_URL": given}).public_url("RELAY_PUBLIC_URL") == origin


def test_an_https_public_url_makes_cookies_secure_and_is_trusted(tmp_path: Path) -> None:
    code = (
        "print(settings.SESSION_COOKIE_SECURE, settings.CSRF_COOKIE_SECURE, settings.SECURE_HSTS_SECONDS > 0,"
        " settings.CSRF_TRUSTED_ORIGINS, 'relay.example.org' in settings.ALLOWED_HOSTS)"
    )
    secure = settings_of(tmp_path, code, RELAY_PUBLIC_URL="https://relay.example.org").stdout
    assert secure == "True True True ['https://relay.example.org'] True\n"
    plain = settings_of(tmp_path, code, RELAY_PUBLIC_URL="http://relay.example.org").stdout
    assert plain == "False False False ['http://relay.example.org'] True\n"


def test_only_loopback_names_are_allowed_hosts_by_default(tmp_path: Path) -> None:
    assert settings_of(tmp_path, "print(settings.ALLOWED_HOSTS)").stdout == "['localhost', '127.0.0.1', '[::1]']\n"


def test_the_secret_key_is_made_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    first = generated_secret(tmp_path / "data" / "secret_key")
    assert generated_secret(tmp_path / "data" / "secret_key") == first
    assert len(first) >= 50
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "data" / "secret_key").stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["secret_key"]


def test_a_damaged_secret_key_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret_key").write_text("cut", encoding="utf-8")
    with pytest.raises(SettingsError, match="damaged"):
        generated_secret(tmp_path / "secret_key")


def test_a_data_folder_that_cannot_be_made_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="RELAY_DATA_DIR"):
        private_directory(tmp_path / "file" / "data")


def test_sqlite_waits_for_its_turn_instead_of_failing(tmp_path: Path) -> None:
    config = database(None, tmp_path)
    assert config["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert "journal_mode=WAL" in config["OPTIONS"]["init_command"]
    assert database("sqlite:////srv/relay.db", tmp_path)["NAME"] == "/srv/relay.db"


def test_postgresql_has_a_pool_and_no_persistent_connections(tmp_path: Path) -> None:
    config = database("postgresql://me:pw@db:5433/relay?sslmode=require", tmp_path)
    assert (config["HOST"], config["PORT"], config["NAME"], config["CONN_MAX_AGE"]) == ("db", 5433, "relay", 0)
    assert config["OPTIONS"]["sslmode"] == "require"
    assert config["OPTIONS"]["pool"]["max_size"] > 1


def test_the_policy_admits_nothing_from_elsewhere_and_no_inline_code() -> None:
    assert STRICT.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in STRICT
    relaxed = content_security_policy(style_src="'self' 'unsafe-inline'")
    assert "style-src 'self' 'unsafe-inline'" in relaxed
    assert "script-src 'self';" in relaxed


def test_json_logs_are_one_object_a_line() -> None:
    record = logging.LogRecord("relay.serve", logging.WARNING, "", 0, "two\nlines: %s", ("x",), None)
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert json.loads(line)["message"] == "two\nlines: x"
    assert json.loads(line)["level"] == "warning"


@pytest.mark.parametrize("url", [None, "https://relay.example.org"])
def test_the_deployment_check_has_nothing_to_say(tmp_path: Path, url: str | None) -> None:
    variables = {"RELAY_PUBLIC_URL": url} if url else {}
    result = manage(tmp_path / "data", "check", "--deploy", "--fail-level", "WARNING", **variables)
    assert result.returncode == 0, result.stderr
    assert "no issues" in result.stdout


def test_the_readme_names_every_setting_and_every_secret() -> None:
    from relay import settings

    rows = re.findall(r"^\| `(RELAY_\w+)`( \*)? \|", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    known = settings._env._known
    assert {name for name, _ in rows} == {name for name in known if not name.endswith("_FILE")}
    assert {name for name, secret in rows if secret} == {
        name.removesuffix("_FILE") for name in known if name.endswith("_FILE")
    }


def test_the_lock_files_pin_everything_with_hashes_and_name_no_registry() -> None:
    for name in ("requirements.lock", "requirements-dev.lock"):
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        starts = [number for number, line in enumerate(lines) if line and line[0].isalnum()]
        assert len(starts) > 30
        for number in starts:
            assert "==" in lines[number]
            assert lines[number + 1].strip().startswith("--hash=sha256:")
        assert not [line for line in lines if "://" in line or line.startswith("-")]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in a path with a space, whose lock file is empty: setting up needs no network."""
    folder = tmp_path / "my checkout"
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "setup", folder / "scripts")
    (folder / "empty.lock").touch()
    return folder


def set_up(checkout: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "scripts/setup", "empty.lock"],
        cwd=checkout,
        env=dict(os.environ) | variables,
        capture_output=True,
        text=True,
        timeout=120,
    )


def fake_python(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_set_up_installs_once_and_again_when_the_lock_changes(checkout: Path) -> None:
    first = set_up(checkout, PYTHON=sys.executable)
    assert first.returncode == 0, first.stderr
    assert "Installing" in first.stdout
    assert set_up(checkout).stdout == ""
    (checkout / "empty.lock").write_text("# changed\n", encoding="utf-8")
    assert "Installing" in set_up(checkout).stdout


def test_set_up_says_so_when_python_is_too_old(checkout: Path) -> None:
    old = fake_python(checkout / "python3-old", 'case "$1" in -V) echo Python 3.9.2;; *) exit 1;; esac')
    result = set_up(checkout, PYTHON="./" + Path(old).name)
    assert result.returncode == 1
    assert "Python 3.11 or newer is needed" in result.stderr
    assert "3.9.2" in result.stderr


def test_set_up_names_the_package_when_the_venv_module_is_missing(checkout: Path) -> None:
    script = 'case "$2" in *ensurepip*) exit 1;; *print*) echo 3.12;; esac'
    result = set_up(checkout, PYTHON="./" + Path(fake_python(checkout / "python3-bare", script)).name)
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        "token-relay: ./python3-bare lacks the venv module. Install it: apt install python3.12-venv"
    ]
