"""The chart library: fetched once for a lock, from no named registry, and no reason to stop when it cannot be."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.relay_server import ROOT


@pytest.fixture
def assets() -> ModuleType:
    spec = importlib.util.spec_from_file_location("assets", ROOT / "scripts" / "assets.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def run(checkout: Path) -> subprocess.CompletedProcess[str]:
    nowhere = os.environ | {"npm_config_registry": "http://127.0.0.1:9/", "npm_config_fetch_retries": "0"}
    command = [sys.executable, str(ROOT / "scripts" / "assets.py")]
    return subprocess.run(command, cwd=checkout, env=nowhere, capture_output=True, text=True, timeout=60)


def test_the_lock_pins_exact_versions_with_hashes_and_names_no_registry() -> None:
    text = (ROOT / "package-lock.json").read_text(encoding="utf-8")
    assert "://" not in text
    wanted = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))["dependencies"]
    packages = json.loads(text)["packages"]
    for name, version in wanted.items():
        assert packages[f"node_modules/{name}"]["version"] == version
    assert all("integrity" in package for path, package in packages.items() if path)


def test_nothing_is_fetched_while_the_lock_is_as_it_was(assets: ModuleType, checkout: Path) -> None:
    wanted = hashlib.sha256((checkout / "package-lock.json").read_bytes() + repr(assets.FILES).encode()).hexdigest()
    vendor = checkout / assets.VENDOR
    vendor.mkdir(parents=True)
    (vendor / assets.STAMP).write_text(wanted, encoding="utf-8")
    assert assets.fetch(checkout) is False
    assert run(checkout).stderr == ""
    (checkout / "package-lock.json").write_text("{}", encoding="utf-8")
    assert "could not be fetched" in run(checkout).stderr


def test_a_failure_is_one_line_that_says_what_to_do_and_stops_nothing(checkout: Path) -> None:
    done = run(checkout)
    assert (done.returncode, done.stdout) == (0, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("token-relay: The chart library could not be fetched (")
    assert "run the same again" in line
    assert not (checkout / "dashboard").exists()
