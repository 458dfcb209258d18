"""A small blocking JSON client for what is not measured: making pools, tenants and keys, reading pages."""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.parse
from types import TracebackType
from typing import Any


class RestError(RuntimeError):
    """An answer that was not a success: its status and its problem document's code, as far as there is one."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code


class Rest:
    """One keep-alive connection to a relay. `url` is its base address."""

    def __init__(self, url: str, key: str = "", timeout_s: float = 30.0) -> None:
        parts = urllib.parse.urlsplit(url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname or "127.0.0.1", parts.port, timeout=timeout_s)
        self._base = parts.path.rstrip("/")
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        self._cookies: dict[str, str] = {}

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The decoded answer (None if it has no body). Raises RestError unless it is a success, OSError if unreachable."""
        payload = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, "content-type": "application/json"} if payload is not None else self._headers
        status, answer = self.raw(method, path, payload, headers)
        if status >= 300:
            raise _error(status, answer)
        return json.loads(answer) if answer else None

    def raw(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Status and body as they come; cookies are kept. Raises OSError if the server cannot be reached."""
        sent = dict(headers or {})
        if self._cookies:
            sent["cookie"] = self.cookie
        try:
            self._connection.request(method, self._base + path, body, sent)
            answer = self._connection.getresponse()
            content = answer.read()
        except http.client.HTTPException as error:
            self._connection.close()
            raise OSError(f"broken answer: {error!r}") from error
        except OSError:
            self._connection.close()
            raise
        for cookie in answer.headers.get_all("set-cookie", []):
            name, _, value = cookie.split(";", 1)[0].partition("=")
            self._cookies[name.strip()] = value
        self.location = answer.headers.get("location")
        return answer.status, content

    @property
    def cookie(self) -> str:
        """The Cookie header of what was set so far."""
        return "; ".join(f"{name}={value}" for name, value in self._cookies.items())

    def log_in(self, user: str, password: str) -> None:
        """Logs in at the page that `/` sends strangers to. Raises RuntimeError if that fails."""
        status, _ = self.raw("GET", "/")
        if status not in {301, 302, 303} or not self.location:
            raise RuntimeError(f"GET / should send strangers to the login page, but answered {status}.")
        page = self.location
        _, content = self.raw("GET", page)
        token = re.search(rb'name="csrfmiddlewaretoken" value="([^"]+)"', content)
        if token is None:
            raise RuntimeError(f"The login page {page} has no form.")
        form = {"username": user, "password": password, "csrfmiddlewaretoken": token.group(1).decode()}
        kind = {"content-type": "application/x-www-form-urlencoded"}
        status, _ = self.raw("POST", page, urllib.parse.urlencode(form).encode(), kind)
        if status not in {302, 303}:
            raise RuntimeError(f"The login answered {status}.")

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def __enter__(self) -> Rest:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _error(status: int, answer: bytes) -> RestError:
    try:
        problem = json.loads(answer)
        return RestError(status, str(problem["code"]), str(problem.get("detail", "")))
    except (ValueError, KeyError, TypeError):
        return RestError(status, "", answer[:200].decode(errors="replace"))


def make_pool(rest: Rest, name: str, capacity: int, **settings: Any) -> None:
    """Makes a pool, or gives an existing one these settings."""
    try:
        rest.call("POST", "/api/v1/pools", {"name": name, "capacity": capacity, **settings})
    except RestError as error:
        if error.code != "pool-exists":
            raise
        rest.call("PATCH", f"/api/v1/pools/{name}", {"capacity": capacity, **settings})


def make_key(rest: Rest, tenant: str, scopes: list[str], weight: float = 1.0) -> str:
    """Makes a tenant if it is missing, and a new key for it."""
    try:
        rest.call("POST", "/api/v1/tenants", {"name": tenant, "weight": weight})
    except RestError as error:
        if error.status != 409:
            raise
    answer = rest.call("POST", f"/api/v1/tenants/{tenant}/keys", {"name": "bench", "scopes": scopes})
    return str(answer["key"])


def acquire(rest: Rest, pool: str, **body: Any) -> str:
    """Acquires and returns the lease's id."""
    return str(rest.call("POST", f"/api/v1/pools/{pool}/acquire", body)["lease_id"])


def release(rest: Rest, lease_id: str) -> None:
    """Releases a lease."""
    rest.call("POST", f"/api/v1/leases/{lease_id}/release")


def wait_for_waiting(rest: Rest, pool: str, count: int, *, most: bool = False, timeout_s: float = 30.0) -> None:
    """Waits until the pool shows at least (`most`: at most) so many waiters. Raises RuntimeError in vain."""
    deadline = time.monotonic() + timeout_s
    while True:
        waiting = int(rest.call("GET", f"/api/v1/pools/{pool}")["waiting"])
        if waiting <= count if most else waiting >= count:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"The pool {pool} shows {waiting} waiters after {timeout_s:.0f} s instead of {count}.")
        time.sleep(0.05)
