"""A Redis or Valkey of the tests' own, on a free port and without a file."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time

from tests.relay_server import free_port

PROGRAMS = ("redis-server", "valkey-server")
START_S = 10.0


class RedisServer:
    """Started when made, and on the same port again by `start`; everything that it held is gone then."""

    def __init__(self, program: str) -> None:
        self._program = program
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        """Its address, for RELAY_REDIS_URL."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Starts it and waits until it takes connections."""
        options = ("--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
        self._process = subprocess.Popen([self._program, *options], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1.0).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    self.kill()
                    raise
                time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """It takes connections, but answers nothing any more."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """It goes on."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)
