"""Processes under measurement: start them on free ports with fresh data folders, read their CPU time and memory, end them."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parent.parent
_TICK_US = 1_000_000 / os.sysconf("SC_CLK_TCK")


def cpu_us(pid: int) -> float:
    """CPU time of a process so far, user and system, all threads, in µs (the kernel counts in ticks of 10 ms)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_US


def rss_bytes(pid: int) -> int:
    """Resident memory of a process."""
    match = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(match.group(1)) * 1024 if match else 0


def raise_file_limit() -> int:
    """Raises this process's limit of open files as far as it may; children inherit it. Returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else 1 << 20


def free_port() -> int:
    """A port of the loopback address that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server(ABC):
    """A server process of ours, ended when the `with` block is left."""

    ready_path = "/"

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"relay-bench-{name}-"))
        self.log = self.folder / "log.txt"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process's id."""
        assert self._process is not None
        return self._process.pid

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self.port}"

    @abstractmethod
    def command(self) -> list[str]:
        """What to start."""

    def environment(self) -> dict[str, str]:
        """Its environment: ours without the relay's settings, so that runs are alike."""
        return {name: value for name, value in os.environ.items() if not name.startswith("RELAY_")}

    def start(self, timeout_s: float = 60.0) -> None:
        """Starts it and waits until it answers. Raises RuntimeError with the end of its log if it does not."""
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self.command(),
                cwd=ROOT,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError, urllib.error.URLError):
                urllib.request.urlopen(self.url + self.ready_path, timeout=2).close()
                return
            time.sleep(0.05)
        tail = self.log_end()
        self.stop()
        raise RuntimeError(f"The {self.name} server did not start within {timeout_s:.0f} s. Its log ends:\n{tail}")

    def stop(self) -> None:
        """Ends it: SIGTERM, after 12 s SIGKILL; removes its folder."""
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(12)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Server:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, (RuntimeError, OSError)):
            print(f"The {self.name} server's log ends:\n{self.log_end()}", file=sys.stderr)
        self.stop()

    def log_end(self) -> str:
        """The last lines that the server printed, without its secrets."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(line for line in lines if not line.startswith(("Password:", "API key:")))[-2000:]


class EchoServer(Server):
    """The raw ASGI echo that everything is compared with."""

    def __init__(self) -> None:
        super().__init__("echo")

    def command(self) -> list[str]:
        """The echo module."""
        return [sys.executable, "-m", "bench.echo", str(self.port)]


class RelayServer(Server):
    """The relay as `manage.py serve` starts it, with a data folder of its own."""

    ready_path = "/readyz"

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        super().__init__("relay")
        self._settings = settings or {}

    def command(self) -> list[str]:
        """`manage.py serve` on our port."""
        return [sys.executable, "manage.py", "serve", "--host", "127.0.0.1", "--port", str(self.port)]

    def environment(self) -> dict[str, str]:
        """With the data folder, and unbuffered so that the printed key is there at once."""
        own = {"RELAY_DATA_DIR": str(self.folder / "data"), "RELAY_LOG_LEVEL": "warning", "PYTHONUNBUFFERED": "1"}
        own["RELAY_ADMIN_PASSWORD"] = secrets.token_urlsafe(15)  # a generated one must be changed before any page opens
        return {**super().environment(), **own, **self._settings}

    def printed(self, label: str) -> str:
        """What the first start printed after `label: `. Raises RuntimeError if it did not."""
        match = re.search(rf"^\s*{label}:\s*(\S+)\s*$", self.log.read_text(errors="replace"), re.MULTILINE)
        if match is None:
            raise RuntimeError(f"The relay's first start printed no '{label}:' line; see its log.")
        return match.group(1)

    @property
    def key(self) -> str:
        """The API key with all scopes that the first start printed."""
        return self.printed("API key")

    @property
    def password(self) -> str:
        """The operator's generated password."""
        return self.printed("Password")
