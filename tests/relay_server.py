"""A real `manage.py serve` as a process of its own, for tests: start, stop, kill, read what it printed."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parent.parent
START_S = 60.0
STOP_S = 15.0


class RelayServer:
    """One server on one data folder. Its port stays the same over restarts; `env` adds RELAY_* variables."""

    def __init__(self, data_dir: Path, env: Mapping[str, str] | None = None) -> None:
        self.data_dir = data_dir
        self.env = dict(env or {})
        self.port = 0
        self.password = ""
        self.api_key = ""
        self._log = data_dir.parent / f"{data_dir.name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address, without a closing slash."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The server's process."""
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> RelayServer:
        """Starts it and waits until it is ready. Raises RuntimeError with the log."""
        self.port = self.port or free_port()
        begin = len(self.log())
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(ROOT / "manage.py"), "serve", "--port", str(self.port)],
                env=environment(self.data_dir, self.env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + START_S
        while not self._ready(self.log()[begin:]):
            if not self.alive or time.monotonic() > deadline:
                self.kill9()
                raise RuntimeError(f"The server did not start:\n{self.log()[begin:]}")
            time.sleep(0.02)
        return self

    def _ready(self, printed: str) -> bool:
        if not re.search(r"^Dashboard: \S+$", printed, re.M):
            return False
        secrets = re.search(r"^Password: (.+)\nAPI key: (\S+)$", printed, re.M)
        if secrets:
            self.password, self.api_key = secrets.groups()
        try:
            return httpx.get(f"{self.url}/readyz", timeout=5.0, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def stop(self) -> float:
        """SIGTERM; the seconds until it had ended. Raises RuntimeError with the log if it does not end."""
        if not self.alive:
            return 0.0
        begun = time.monotonic()
        os.kill(self.pid, signal.SIGTERM)
        try:
            self.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise RuntimeError(f"The server did not end within {STOP_S} s:\n{self.log()}") from None
        return time.monotonic() - begun

    def wait(self, timeout_s: float) -> int:
        """The exit code, once it has ended by itself."""
        assert self._process is not None, "not started"
        return self._process.wait(timeout_s)

    def kill9(self) -> None:
        """SIGKILL, as a power cut would end it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def restart(self) -> RelayServer:
        """Stops it if it runs, and starts it on the same port and data."""
        self.stop()
        return self.start()

    def http(self, key: str | None = None) -> httpx.Client:
        """A client with the first start's key, or another; with `""` none."""
        key = self.api_key if key is None else key
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30.0, trust_env=False)

    def log(self) -> str:
        """Everything that it printed, over all its starts."""
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""

    def command(self, *arguments: str) -> str:
        """What a `manage.py` command on the same data folder prints. Raises CalledProcessError."""
        return subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), *arguments],
            env=environment(self.data_dir, self.env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            text=True,
            timeout=60,
        ).stdout


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(data_dir: Path, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """A process's environment: the present one without the developer's RELAY_*, and the test's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RELAY_")}
    kept.pop("DJANGO_SETTINGS_MODULE", None)
    return kept | {"RELAY_DATA_DIR": str(data_dir), "PYTHONUNBUFFERED": "1"} | dict(env or {})
