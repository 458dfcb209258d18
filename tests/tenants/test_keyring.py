"""The key ring alone, with a clock of the test's own."""

from __future__ import annotations

import pytest

from relay.http import Problem
from relay.tenants import keyring
from relay.tenants.keyring import KeyRing, KeyRow, digest_of

PEPPER = b"pepper"
KEY = "relay_abc_se_cret"
HEADER = b"Bearer relay_abc_se_cret"


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def row(scopes: tuple[str, ...] = ("permits",), expires_at: float | None = None) -> KeyRow:
    return KeyRow("abc", "search", scopes, digest_of(KEY, PEPPER), expires_at)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ring(clock: Clock) -> KeyRing:
    return KeyRing(PEPPER, clock)


def refuses(ring: KeyRing, header: bytes | None) -> str:
    with pytest.raises(Problem) as caught:
        ring.authenticate(header)
    assert (caught.value.status, caught.value.code) == (401, "unauthenticated")
    return caught.value.detail


def test_a_verified_header_is_known_by_its_bytes(ring: KeyRing) -> None:
    ring.load([row()])
    first = ring.authenticate(HEADER)
    assert first is ring.authenticate(HEADER)
    assert (first.key_id, first.tenant, first.scopes) == ("abc", "search", {"permits"})
    assert ring.authenticate(b"bearer  relay_abc_se_cret ") == first


def test_a_load_forgets_keys_that_are_gone(ring: KeyRing) -> None:
    ring.load([row()])
    ring.authenticate(HEADER)
    ring.load([])
    refuses(ring, HEADER)


@pytest.mark.parametrize(
    "header",
    [None, b"", b"Bearer", b"Bearer relay_abc_wrong", b"Bearer relay_abc_se_cret_", b"Basic relay_abc_se_cret",
     b"Bearer relay_abd_se_cret", b"Bearer other_abc_se_cret", b"Bearer \xff\xfe", b"Bearer relay_abc_se_cret" + b" " * 400],
)  # fmt: skip
def test_anything_else_is_refused(ring: KeyRing, header: bytes | None) -> None:
    ring.load([row()])
    assert refuses(ring, header)


def test_another_pepper_makes_a_key_void(clock: Clock) -> None:
    ring = KeyRing(b"another", clock)
    ring.load([row()])
    refuses(ring, HEADER)


def test_a_key_ends_at_its_expiry_also_when_it_was_verified_before(ring: KeyRing, clock: Clock) -> None:
    ring.load([row(expires_at=1010.0)])
    clock.now = 1009.999
    assert ring.authenticate(HEADER).expires_at == 1010.0
    clock.now = 1010.0
    assert "expired" in refuses(ring, HEADER)


def test_scopes_hold_what_they_include(ring: KeyRing) -> None:
    for given, held in [
        (("read",), {"read"}),
        (("operate",), {"operate", "read"}),
        (("admin", "tokens"), {"admin", "operate", "read", "tokens"}),
    ]:
        ring.load([row(given)])
        principal = ring.authenticate(HEADER)
        assert principal.scopes == held
        with pytest.raises(Problem, match="permits") as caught:
            principal.require("permits")
        assert (caught.value.status, caught.value.code) == (403, "forbidden")


def test_it_remembers_when_keys_were_used(ring: KeyRing, clock: Clock) -> None:
    ring.load([row()])
    ring.authenticate(HEADER)
    clock.now = 1005.0
    ring.authenticate(HEADER)
    assert ring.take_used() == {"abc": 1005.0}
    assert ring.take_used() == {}


def test_the_table_of_verified_headers_is_bounded(ring: KeyRing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "_VERIFIED_LIMIT", 10)
    ring.load([row()])
    for blanks in range(100):
        ring.authenticate(b"Bearer" + b" " * (blanks + 1) + KEY.encode())
    assert len(ring._verified) <= 10
