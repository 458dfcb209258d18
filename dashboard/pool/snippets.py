"""How to use a pool, ready to be pasted: with this relay's address and this pool's name."""

from __future__ import annotations

from dataclasses import dataclass

_ENVIRONMENT = """\
export RELAY_URL={address}
export RELAY_API_KEY=…   # manage.py create_api_key --tenant NAME prints one"""

_CURL = """\
curl -sS -X POST {address}/api/v1/pools/{pool}/acquire \\
  -H "Authorization: Bearer $RELAY_API_KEY" -H "Content-Type: application/json" \\
  -d '{{"permits": 1, "timeout_s": 30}}'

curl -sS -X POST {address}/api/v1/leases/LEASE_ID/release \\
  -H "Authorization: Bearer $RELAY_API_KEY\""""

_PYTHON = """\
import json
import os
import urllib.request

RELAY = os.environ.get("RELAY_URL", "{address}")


def call(path, **body):
    request = urllib.request.Request(
        RELAY + "/api/v1" + path,
        data=json.dumps(body).encode(),
        headers={{
            "Authorization": "Bearer " + os.environ["RELAY_API_KEY"],
            "Content-Type": "application/json",
        }},
    )
    with urllib.request.urlopen(request, timeout=40) as answer:
        return json.load(answer)


lease = call("/pools/{pool}/acquire", permits=1, timeout_s=30)
try:
    print("working with", lease["lease_id"], "for at most", lease["expires_in_s"], "s")
finally:
    call("/leases/" + lease["lease_id"] + "/release", outcome="ok")"""


@dataclass(frozen=True)
class Snippet:
    """A text to copy."""

    key: str
    title: str
    text: str


def snippets(address: str, pool: str) -> list[Snippet]:
    """Environment variables, curl, Python's own library. `address` is the relay's, without a closing slash."""
    texts = (("env", "sh", _ENVIRONMENT), ("curl", "curl", _CURL), ("python", "Python", _PYTHON))
    return [Snippet(key, title, text.format(address=address, pool=pool)) for key, title, text in texts]
