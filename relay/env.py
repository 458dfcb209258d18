"""Settings from the environment: read, checked, and refused in one line that says what is allowed.

Knows nothing of Django. A secret may also stand in a file that `NAME_FILE` names; its value is never part of a message.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

Word = TypeVar("Word", bound=str)

PREFIX = "RELAY_"

# RELAY_URL and RELAY_API_KEY are a client's, and may stand in the same environment.
CLIENT_NAMES = frozenset({"RELAY_URL", "RELAY_API_KEY"})


class SettingsError(Exception):
    """A setting that the relay can't start with. Its text is one line for the person who set it."""


class Environment:
    """Typed access to the variables of one process. An empty variable counts as unset; every method raises SettingsError."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._known: set[str] = set()

    def text(self, name: str, default: str = "") -> str:
        """The value, without surrounding white space."""
        self._known.add(name)
        return self._variables.get(name, "").strip() or default

    def secret(self, name: str) -> str | None:
        """A secret's value, from `name` or from the file that `name_FILE` names; None if neither is set."""
        value = self.text(name)
        path = self.text(f"{name}_FILE")
        if value and path:
            raise SettingsError(f"{name} and {name}_FILE are both set. Set one of them.")
        if not path:
            return value or None
        try:
            content = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise SettingsError(f"{name}_FILE={path!r} can't be read ({why}). Name a readable text file.") from None
        if not content:
            raise SettingsError(f"{name}_FILE={path!r} is an empty file. Write the secret into it.")
        return content

    def choice(self, name: str, allowed: Sequence[Word], default: Word) -> Word:
        """One of a few words, in lower or upper case."""
        value = self.text(name, str(default))
        for word in allowed:
            if value.lower() == word.lower():
                return word
        raise refused(name, value, f"one of {', '.join(allowed)}")

    def flag(self, name: str) -> bool:
        """A switch that is off unless set."""
        value = self.text(name, "false")
        if value.lower() in {"1", "true", "yes", "on"}:
            return True
        if value.lower() in {"0", "false", "no", "off"}:
            return False
        raise refused(name, value, "true or false")

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number within bounds."""
        value = self.text(name, str(default))
        if not value.isascii() or not value.isdigit() or len(value) > 18 or not least <= int(value) <= most:
            raise refused(name, value, f"a whole number from {least} to {most}")
        return int(value)

    def directory(self, name: str, default: Path) -> Path:
        """A folder's absolute path; it need not exist yet."""
        value = self.text(name)
        path = os.path.abspath(os.path.expanduser(value)) if value else str(default)
        if os.path.exists(path) and not os.path.isdir(path):
            raise refused(name, value or path, "a folder, or a path where one can be made")
        return Path(path)

    def public_url(self, name: str) -> str | None:
        """An http or https origin, without a closing slash."""
        value = self.text(name)
        if not value:
            return None
        allowed = "an origin such as https://relay.example.org, without path, user or query"
        try:
            parts = urlsplit(value)
            port = parts.port
        except ValueError:
            raise refused(name, value, allowed) from None
        host = parts.hostname or ""
        extra = parts.path.rstrip("/") or parts.query or parts.fragment or parts.username or parts.password
        if parts.scheme not in {"http", "https"} or not is_host(host) or extra:
            raise refused(name, value, allowed)
        shown = f"[{host}]" if ":" in host else host
        return f"{parts.scheme}://{shown}" + (f":{port}" if port else "")

    def redis_url(self, name: str) -> str | None:
        """A secret: the address of a Redis or Valkey, checked without asking it; None if unset."""
        value = self.secret(name)
        if value is None or _is_redis_url(value):
            return value
        raise SettingsError(
            f"{name} (a secret, not shown) is not allowed. Allowed: redis://host:6379/0, rediss://… for TLS, "
            "unix:///path/of/socket, with user:password@ before the host if it needs them."
        )

    def hosts(self, name: str, default: Sequence[str]) -> list[str]:
        """Host names as Django's ALLOWED_HOSTS takes them: `*`, names, `.domain`, addresses; no port."""
        hosts = self._list(name) or list(default)
        for host in hosts:
            if host != "*" and not is_host(host.removeprefix(".").strip("[]")):
                raise refused(name, host, "host names without scheme or port, split by commas (or *)")
        return hosts

    def networks(self, name: str) -> list[str]:
        """Addresses and networks, or `*` alone."""
        networks = self._list(name)
        for network in networks:
            try:
                if networks != ["*"]:
                    ipaddress.ip_network(network)
            except ValueError:
                allowed = "IP addresses or networks (10.0.0.0/8), split by commas (or * alone)"
                raise refused(name, network, allowed) from None
        return networks

    def _list(self, name: str) -> list[str]:
        return [item.strip() for item in self.text(name).split(",") if item.strip()]

    def warnings(self) -> list[str]:
        """A line for each RELAY_ variable that nothing reads, with the nearest name that is read."""
        lines = []
        for name in sorted(self._variables):
            if not name.startswith(PREFIX) or name in self._known or name in CLIENT_NAMES:
                continue
            near = difflib.get_close_matches(name, sorted(self._known), n=1, cutoff=0.6)
            lines.append(f"{name} is not a setting and is ignored" + (f"; did you mean {near[0]}?" if near else "."))
        return lines


def refused(name: str, value: str, allowed: str) -> SettingsError:
    """The line for a value that is not allowed. Not for secrets."""
    shown = value if len(value) <= 80 else value[:77] + "…"
    return SettingsError(f"{name}={shown!r} is not allowed. Allowed: {allowed}.")


def _is_redis_url(value: str) -> bool:
    try:
        parts = urlsplit(value)
        usable = parts.port != 0
    except ValueError:
        return False
    if parts.scheme == "unix":
        return parts.path.startswith("/")
    database = parts.path.strip("/")
    known = parts.scheme in {"redis", "rediss"} and is_host(parts.hostname or "")
    return usable and known and (not database or (database.isascii() and database.isdigit()))


def is_host(host: str) -> bool:
    """Whether this can be a host's name or address, without a port."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        letters = host.replace(".", "").replace("-", "").replace("_", "")
        return 0 < len(host) <= 253 and letters.isascii() and letters.isalnum() and ".." not in host
    return True


def private_directory(path: Path) -> None:
    """Makes a folder that only its owner can enter (0700); one that exists is left as it is. Raises SettingsError."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"The data folder {path} can't be made ({error.strerror}). Set RELAY_DATA_DIR.") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise SettingsError(f"The data folder {path} can't be written to. Set RELAY_DATA_DIR or its permissions.")


def generated_secret(path: Path) -> str:
    """The secret in a file, which is made (0600) with a new one if it is missing. Raises SettingsError."""
    try:
        if not path.exists():
            private_directory(path.parent)
            _write_new(path, secrets.token_urlsafe(48))
        content = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"The secret key file {path} can't be used ({error}). Mend it, or set RELAY_SECRET_KEY."
        ) from None
    if len(content) < 32:
        raise SettingsError(f"The secret key file {path} is damaged. Bring it back from the backup.")
    return content


def _write_new(path: Path, content: str) -> None:
    # A link either makes the whole file or finds the one of a process that was faster: nobody reads half a secret.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".secret-")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(content + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(name, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(name)
