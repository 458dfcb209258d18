"""A small asyncio HTTP/1.1 client with kept connections, for the demo. Each request in flight has a connection of its own."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.parse
from typing import Any

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Api:
    """A relay at a base URL, with one tenant's key."""

    def __init__(self, url: str, key: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or (443 if self._tls else 80)
        self._path = parts.path.rstrip("/")
        self._head = f"HTTP/1.1\r\nhost: {parts.netloc.rpartition('@')[2]}\r\nauthorization: Bearer {key}\r\n"
        self._idle: list[Stream] = []

    async def call(
        self, method: str, path: str, body: dict[str, Any] | None = None, key: str = ""
    ) -> tuple[int, dict[str, Any]]:
        """Status and decoded body; `key` is the Idempotency-Key. Raises OSError if the relay cannot be reached.

        A kept connection may have been closed meanwhile: such a request is sent once more on a new one.
        """
        message = self._message(method, path, body, key)
        while self._idle:
            stream = self._idle.pop()
            try:
                return await self._exchange(stream, message)
            except OSError:
                continue
        stream = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
        return await self._exchange(stream, message)

    def _message(self, method: str, path: str, body: dict[str, Any] | None, key: str) -> bytes:
        payload = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {self._path}{path} {self._head}content-length: {len(payload)}\r\n"
        if payload:
            head += "content-type: application/json\r\n"
        if key:
            head += f"idempotency-key: {key}\r\n"
        return head.encode() + b"\r\n" + payload

    async def _exchange(self, stream: Stream, message: bytes) -> tuple[int, dict[str, Any]]:
        reader, writer = stream
        keep = False
        try:
            writer.write(message)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            _, found, rest = head.partition("\r\ncontent-length:")
            content = await reader.readexactly(int(rest.split("\r\n", 1)[0])) if found else b""
            keep = "\r\nconnection: close" not in head
            return int(head[9:12]), json.loads(content) if content else {}
        except (EOFError, asyncio.LimitOverrunError, ValueError) as error:
            raise ConnectionError(f"broken answer: {error!r}") from error
        finally:
            if keep:
                self._idle.append(stream)
            else:
                writer.close()

    def close(self) -> None:
        """Closes the kept connections."""
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()
