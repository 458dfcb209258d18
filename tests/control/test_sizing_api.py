"""Sizing over the API, without a server: shapes, versions, pins, who may."""

from __future__ import annotations

from typing import Any

import pytest

from relay.permits.models import Pool
from relay.permits.sizing.base import Decision
from relay.permits.sizing.config import write_decision
from relay.permits.sync import changes_since
from relay.tenants.models import Change
from tests.control.cast import Cast, refused

PATH = "/pools/gpu/sizing"
BY_LOAD: dict[str, Any] = {"policy": {"kind": "load"}, "minimum": 2, "maximum": 40}


@pytest.fixture
def pool(cast: Cast) -> None:
    """A pool of 10."""
    assert cast.operator("POST", "/pools", {"name": "gpu", "capacity": 10}).status_code == 201


pytestmark = pytest.mark.usefixtures("pool")


def test_a_sizing_is_set_read_changed_and_ended(cast: Cast) -> None:
    assert cast.reader("GET", PATH).json()["sizing"] is None
    response = cast.operator("PUT", PATH, BY_LOAD | {"reason": "busy mornings"})
    assert response.status_code == 200
    assert response.json()["sizing"]["policy"]["grow_above"] == 0.8
    assert response["ETag"] == '"2"'
    assert cast.operator("PATCH", PATH, {"pin": 30}).json()["sizing"]["pin"] == 30
    assert cast.operator("PATCH", PATH, {"pin": None}).json()["sizing"]["pin"] is None
    assert cast.operator("DELETE", PATH).status_code == 204
    assert cast.reader("GET", PATH).json()["sizing"] is None
    assert [change.action for change in Change.objects.filter(kind="pool")] == ["sizing"] * 4 + ["create"]
    assert Change.objects.filter(reason="busy mornings").count() == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"maximum": 1}, "maximum"),
        ({"minimum": 0}, "minimum"),
        ({"policy": {"kind": "tides"}}, "policy.kind"),
        ({"policy": {"kind": "load", "grow_above": 2}}, "policy.grow_above"),
        ({"policy": {"kind": "load", "grow_above": 0.5, "shrink_below": 0.5}}, "policy.shrink_below"),
        ({"policy": {"kind": "schedule", "entries": []}}, "policy.entries"),
        ({"policy": {"kind": "schedule", "entries": [{"at": "25:00", "capacity": 1}]}}, "policy.entries[0].at"),
        ({"policy": {"kind": "adaptive", "decrease": 1}}, "policy.decrease"),
        ({"pin": True}, "pin"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_is_wrong_is_named_and_changes_nothing(cast: Cast, change: dict[str, Any], field: str) -> None:
    problem = refused(cast.operator("PUT", PATH, BY_LOAD | change), 400, "invalid")
    assert list(problem["errors"]) == [field]
    assert Pool.objects.get().sizing is None
    assert Pool.objects.get().version == 1


def test_a_part_cannot_be_changed_where_nothing_sizes_the_pool(cast: Cast) -> None:
    refused(cast.operator("PATCH", PATH, {"pin": 5}), 400, "invalid")


def test_versions_are_checked(cast: Cast) -> None:
    cast.operator("PUT", PATH, BY_LOAD)
    refused(cast.operator("PUT", PATH, BY_LOAD | {"maximum": 50}, If_Match='"1"'), 412, "version-conflict")


def test_readers_may_look_and_not_touch(cast: Cast) -> None:
    assert cast.reader("GET", PATH).status_code == 200
    refused(cast.reader("PUT", PATH, BY_LOAD), 403, "forbidden")
    refused(cast.operator("GET", "/pools/none/sizing"), 404, "pool-not-found")


def test_a_size_set_by_hand_is_a_pin(cast: Cast) -> None:
    cast.operator("PUT", PATH, BY_LOAD)
    cast.operator("PATCH", "/pools/gpu", {"capacity": 60})
    assert cast.reader("GET", PATH).json()["sizing"]["pin"] == 60
    change = Change.objects.filter(action="update").first()
    assert change is not None
    assert (change.before["pin"], change.after["pin"]) == (None, 60)


def test_a_decision_is_a_change_with_its_reason_and_leaves_the_version(cast: Cast) -> None:
    cast.operator("PUT", PATH, BY_LOAD)
    assert write_decision("gpu", Decision(10, 11, "load 0.93 over 0.80 for 30 s: 10 to 11"))
    pool = Pool.objects.get()
    assert (pool.capacity, pool.version) == (11, 2)
    change = Change.objects.first()
    assert change is not None
    assert (change.actor_kind, change.actor, change.action) == ("system", "sizing", "resize")
    assert change.reason == "load 0.93 over 0.80 for 30 s: 10 to 11"


def test_a_decision_that_a_person_overtook_is_dropped(cast: Cast) -> None:
    cast.operator("PUT", PATH, BY_LOAD)
    cast.operator("PATCH", "/pools/gpu", {"capacity": 20})
    assert not write_decision("gpu", Decision(10, 11, "load"))
    cast.operator("DELETE", PATH)
    assert not write_decision("gpu", Decision(20, 21, "load"))
    assert not write_decision("none", Decision(20, 21, "load"))
    assert Pool.objects.get().capacity == 20


def test_the_engine_hears_of_sizings_and_of_the_most_that_they_allow(cast: Cast) -> None:
    cast.operator("PUT", PATH, BY_LOAD)
    delta = changes_since(None)
    sizing = delta.sizings["gpu"]
    assert sizing is not None
    assert sizing.maximum == 40
    config = delta.pools["gpu"]
    assert config is not None
    assert config.ceiling == 40
    version = delta.version
    cast.operator("DELETE", PATH)
    assert changes_since(version).sizings == {"gpu": None}
