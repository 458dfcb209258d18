"""Leases, waiting, idempotency and states: rules 1 to 4 and 10 to 19, for the model and for the core alike."""

from __future__ import annotations

from typing import Any

import pytest

from relay.permits.engine.base import SECOND, LeaseEnded, Refused, Share
from relay.permits.engine.core import PoolCore
from tests.permits.driver import Desk
from tests.permits.model import ReferencePool

pytestmark = pytest.mark.parametrize("make", [ReferencePool, PoolCore])

KEPT = 10  # seconds: the default reconnect_grace_s


def test_rule_1_permits_in_use_are_the_sum_over_the_leases(make: Any) -> None:
    desk = Desk(make, 10)
    desk.ask("three", "a", 3)
    desk.ask("four", "b", 4)
    assert (desk.pool.in_use, desk.pool.tenant_in_use("a"), desk.pool.drift()) == (7, 3, 0)
    assert desk.ask("more", "c", 4, timeout=0) == "acquire-timeout"


def test_rule_1_releasing_twice_makes_no_permit(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x")
    desk.ask("y")
    desk.ask("z")
    desk.release("x")
    assert desk.released("x").reason == "released"
    assert (desk.holders(), desk.events(), desk.pool.in_use) == (["y"], [], 1)


def test_rule_1_releasing_what_expired_or_is_somebody_elses_makes_no_permit(make: Any) -> None:
    desk = Desk(make, 2)
    desk.ask("x", ttl=1)
    desk.ask("y", "b")
    desk.at(1)
    assert desk.released("x").reason == "expired"
    with pytest.raises(Refused) as refusal:
        desk.released("y", tenant="a")
    assert refusal.value.code == "lease-not-found"
    assert (desk.pool.in_use, desk.events()) == (1, [])


@pytest.mark.parametrize("end", ["release", "revoke", "undelivered"])
def test_rule_2_permits_go_to_the_next_at_the_moment_of_the_end(make: Any, end: str) -> None:
    desk = Desk(make, 1)
    desk.ask("x")
    desk.ask("y")
    reason = {"release": "released", "revoke": "revoked", "undelivered": "dropped"}[end]
    assert getattr(desk, end)("x") == [f"ended x {reason}", "granted y"]


def test_rule_2_a_lease_ends_once(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x", ttl=5)
    lease = desk.leases["x"]
    assert desk.revoke("x") == ["ended x revoked"]
    assert desk.pool.revoke(lease.lease_id, desk.now) is False
    assert desk.undelivered("x") == []
    assert desk.at(6) == []
    assert desk.released("x").reason == "revoked"
    assert desk.renew("x") == "lease-revoked"


def test_rule_3_growing_serves_waiters_at_once(make: Any) -> None:
    desk = Desk(make, 1)
    for holder in ("x", "y", "z"):
        desk.ask(holder)
    assert desk.change(capacity=3) == ["granted y", "granted z"]


def test_rule_3_shrinking_evicts_nobody_and_grants_nothing_until_there_is_room(make: Any) -> None:
    desk = Desk(make, 10)
    for number in range(8):
        desk.ask(f"x{number}")
    assert desk.change(capacity=3) == []
    assert desk.pool.in_use == 8
    assert desk.ask("next") == "waits"
    for number in range(5):
        assert desk.release(f"x{number}") == [f"ended x{number} released"]
    assert desk.release("x5") == ["ended x5 released", "granted next"]


def test_rule_3_a_waiter_that_the_new_size_can_never_serve_ends_and_the_others_move(make: Any) -> None:
    desk = Desk(make, 4)
    desk.ask("x", "x", 2)
    desk.ask("four", "a", 4)
    desk.ask("one", "b", 1)
    assert desk.change(capacity=3) == ["left four exceeds-capacity", "granted one"]


def test_rule_3_a_lowered_limit_ends_waiters_above_it_also_absent_ones(make: Any) -> None:
    desk = Desk(make, 4)
    desk.ask("x", "x", 4)
    desk.ask("three", "a", 3)
    desk.ask("gone", "a", 3, key="k")
    desk.ask("two", "a", 2)
    desk.disconnect("gone")
    left = desk.change(shares={"a": Share(limit=2)})
    assert left == ["left three exceeds-tenant-limit", "left gone exceeds-tenant-limit"]
    assert desk.order() == ["two"]


def test_rule_4_a_grant_that_is_cancelled_in_the_same_instant_loses_no_permit(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x", ttl=5)
    desk.ask("y")
    desk.ask("z")
    desk.now = 5 * SECOND
    assert desk.disconnect("y") == ["ended x expired", "granted y"]  # too late: it has the lease
    assert desk.undelivered("y") == ["ended y dropped", "granted z"]


def test_rule_10_a_try_is_answered_at_once_and_takes_nobodys_place(make: Any) -> None:
    desk = Desk(make, 1)
    assert desk.ask("x", timeout=0) == "granted"
    assert desk.ask("y", timeout=0) == "acquire-timeout"
    assert (desk.pool.waiting, desk.order()) == (0, [])


@pytest.mark.parametrize("state", ["active", "paused", "draining"])
def test_rule_10_a_wait_ends_at_its_deadline_in_every_state(make: Any, state: str) -> None:
    desk = Desk(make, 1)
    desk.ask("x")
    desk.ask("y", timeout=2)
    desk.change(state=state)
    assert desk.pool.next_due() <= 2 * SECOND
    assert desk.at(1.999999) == []
    assert desk.at(2) == ["left y acquire-timeout"]


def test_rule_11_a_disconnect_ends_the_wait_at_once(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x")
    desk.ask("y")
    assert desk.disconnect("y") == ["left y cancelled"]
    assert desk.pool.waiting == 0


def test_rule_11_a_leaving_large_waiter_lets_the_smaller_ones_in(make: Any) -> None:
    desk = Desk(make, 2)
    desk.ask("x")
    desk.ask("large", permits=2)
    desk.ask("small")
    assert desk.disconnect("large") == ["left large cancelled", "granted small"]


def test_an_operator_cancels_a_wait_once(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x")
    desk.ask("y")
    assert desk.cancel("y") == ["left y waiter-cancelled"]
    assert desk.pool.cancel(desk.waiters["y"].waiter_id, desk.now) is False


def test_rule_13_a_refusal_says_when_to_come_back_with_jitter(make: Any) -> None:
    desk = Desk(make, 1, max_waiters=1)
    desk.ask("x")
    desk.at(4)
    desk.release("x")
    desk.ask("y")
    hints = {desk.refusal(f"t{number}").retry_after_us for number in range(20)}
    assert None not in hints
    assert min(hint or 0 for hint in hints) > 0
    assert len(hints) > 1


def test_rule_13_the_hint_grows_with_the_queue_and_with_the_holds(make: Any) -> None:
    def mean_hint(hold: float, queue: int) -> float:
        desk = Desk(make, 1)
        for number in range(20):
            desk.ask(f"x{number}")
            desk.at((number + 1) * hold)
            desk.release(f"x{number}")
        for number in range(queue + 1):
            desk.ask(f"w{number}")
        hints = [desk.refusal(f"t{number}").retry_after_us or 0 for number in range(50)]
        return sum(hints) / len(hints)

    assert mean_hint(2, 1) < mean_hint(2, 20)
    assert mean_hint(2, 5) < mean_hint(20, 5)


def test_rule_13_what_can_never_be_granted_has_no_hint(make: Any) -> None:
    assert Desk(make, 1).refusal("x", permits=2).retry_after_us is None


def test_rule_14_a_repeat_gets_the_lease_while_it_lives_and_then_a_new_one(make: Any) -> None:
    desk = Desk(make, 2)
    assert desk.ask("x", key="k") == "granted"
    first = desk.leases["x"].lease_id
    assert desk.ask("x", key="k", timeout=5) == "existing"
    assert desk.leases["x"].lease_id == first
    assert desk.pool.in_use == 1
    desk.release("x")
    assert desk.ask("x", key="k") == "granted"
    assert desk.leases["x"].lease_id != first


def test_rule_14_a_key_belongs_to_its_tenant(make: Any) -> None:
    desk = Desk(make, 2)
    desk.ask("x", "a", key="k")
    assert desk.ask("y", "b", key="k") == "granted"


@pytest.mark.parametrize("other", [{"permits": 2}, {"priority": "batch"}, {"ttl": 7}])
def test_rule_14_another_body_is_a_conflict_and_changes_nothing(make: Any, other: dict[str, Any]) -> None:
    desk = Desk(make, 2)
    desk.ask("x", key="k")
    desk.ask("big", permits=2, key="w")
    assert desk.ask("x", key="k", **other) == "idempotency-conflict"
    assert desk.ask("big", key="w", **{"permits": 3, **other, "ttl": 8}) == "idempotency-conflict"
    assert (desk.holders(), desk.order()) == (["x"], ["big"])


def test_rule_14_a_repeat_takes_over_the_place_and_age_with_its_own_deadline(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x", ttl=20)
    desk.ask("y", key="k", timeout=10)
    desk.ask("z")
    desk.at(5)
    before = desk.waiters["y"].waiter_id
    assert desk.ask("y", key="k", timeout=30) == "waits"
    assert desk.waiters["y"].waiter_id == before
    assert desk.waiters["y"].deadline_us == 35 * SECOND
    assert desk.order() == ["y", "z"]
    assert desk.at(20) == ["ended x expired", "granted y"]
    assert desk.leases["y"].waited_us == 20 * SECOND


def test_rule_14_a_lost_connection_keeps_its_place_for_the_grace(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x")
    desk.ask("y", key="k")
    assert desk.disconnect("y") == []
    assert (desk.pool.waiting, desk.order()) == (0, ["y?"])
    assert desk.at(KEPT - 0.000001) == []
    assert desk.at(KEPT) == ["left y cancelled"]
    assert desk.ask("y", permits=1, priority="batch", key="k") == "waits"  # the key is free


def test_rule_14_the_kept_place_never_outlives_the_deadline(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x")
    desk.ask("y", key="k", timeout=3)
    desk.disconnect("y")
    assert desk.at(2.9) == []
    assert [event.rsplit(" ", 1)[0] for event in desk.at(3)] == ["left y"]


def test_rule_14_without_grace_nothing_is_kept(make: Any) -> None:
    desk = Desk(make, 2, reconnect_grace_us=0)
    desk.ask("x", key="x")
    desk.ask("big", permits=2, key="k")
    assert desk.disconnect("big") == ["left big cancelled"]
    assert desk.undelivered("x") == ["ended x dropped"]


def test_rule_14_an_absent_waiter_is_not_granted_blocks_nobody_and_counts_in_the_bound(make: Any) -> None:
    desk = Desk(make, 1, max_waiters=2)
    desk.ask("x")
    desk.ask("gone", key="k")
    desk.ask("next")
    desk.disconnect("gone")
    assert desk.ask("third") == "queue-full"
    assert desk.release("x") == ["ended x released", "granted next"]
    assert desk.release("next") == ["ended next released"]
    assert desk.ask("gone", key="k") == "granted"  # back in time


def test_rule_14_a_grant_whose_answer_is_lost_is_kept_for_the_grace_then_dropped(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x", key="k")
    desk.ask("y")
    assert desk.undelivered("x") == []
    assert desk.pool.next_due() <= KEPT * SECOND
    assert desk.at(KEPT - 0.000001) == []
    assert desk.at(KEPT) == ["ended x dropped", "granted y"]
    assert desk.renew("x") == "lease-dropped"


def test_rule_14_a_kept_grant_that_is_fetched_lives_on(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x", key="k", ttl=60)
    desk.undelivered("x")
    desk.at(5)
    assert desk.ask("x", key="k", ttl=60) == "existing"
    desk.delivered("x")
    assert desk.at(30) == []
    desk.ask("x", key="k", ttl=60)
    assert desk.undelivered("x") == []  # a later repeat that is lost takes nothing from the holder
    assert desk.at(59) == []
    assert desk.at(60) == ["ended x expired"]


def test_rule_14_a_try_with_a_connected_waiters_key_leaves_it_alone(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x")
    desk.ask("y", key="k", timeout=50)
    assert desk.ask("y", key="k", timeout=0) == "acquire-timeout"
    assert desk.waiters["y"].deadline_us == 50 * SECOND
    assert desk.order() == ["y"]


def test_rule_14_a_try_with_an_absent_waiters_key_is_granted_in_its_place_or_leaves_it(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x")
    desk.ask("y", key="k")
    desk.disconnect("y")
    desk.at(4)
    assert desk.ask("y", key="k", timeout=0) == "acquire-timeout"
    desk.release("x")
    assert desk.ask("y", key="k", timeout=0) == "granted"
    assert desk.leases["y"].waited_us == 4 * SECOND
    assert desk.order() == []


def test_rule_14_a_try_for_an_absent_waiter_that_finds_nothing_does_not_lengthen_the_grace(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x")
    desk.ask("y", key="k")
    desk.disconnect("y")
    desk.at(9)
    desk.ask("y", key="k", timeout=0)
    assert desk.at(KEPT) == ["left y cancelled"]


def test_rule_14_a_refusal_frees_the_key(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x")
    assert desk.ask("y", key="k", timeout=0) == "acquire-timeout"
    assert desk.ask("z", permits=1, key="k", priority="batch") == "waits"


def test_rule_15_a_lease_expires_its_ttl_after_the_last_renewal_with_nobody_calling(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x", ttl=10)
    desk.at(8)
    assert desk.renew("x", 10) == "renewed"
    assert desk.pool.next_due() <= 18 * SECOND
    assert desk.at(17.999999) == []
    assert desk.at(18) == ["ended x expired"]


def test_rule_16_fencing_tokens_go_on_upwards_from_where_the_pool_left_off(make: Any) -> None:
    desk = Desk(make, 1, fencing=41)
    desk.ask("x")
    desk.ask("y")
    desk.release("x")
    assert desk.leases["x"].fencing_token > 41
    assert desk.leases["y"].fencing_token > desk.leases["x"].fencing_token


def test_rule_17_to_another_tenant_the_lease_does_not_exist(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x", "a", ttl=5)
    assert desk.renew("x", tenant="b") == "lease-not-found"
    desk.at(5)
    assert desk.renew("x", tenant="b") == "lease-not-found"
    with pytest.raises(Refused):
        desk.released("x", tenant="b")


def test_rule_17_a_holder_is_told_why_its_lease_ended_for_24_hours(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x", ttl=5)
    desk.now = 6 * SECOND
    with pytest.raises(LeaseEnded) as ended:
        desk.pool.renew(desk.leases["x"].lease_id, "a", None, desk.now)  # no sweep has come by
    assert ended.value.reason == "expired"
    desk.at(24 * 3600)
    assert desk.renew("x") == "lease-expired"
    desk.at(24 * 3600 + 7)
    assert desk.renew("x") == "lease-not-found"
    with pytest.raises(Refused):
        desk.pool.revoke(desk.leases["x"].lease_id, desk.now)


def test_rule_17_a_late_release_is_answered_with_the_reason(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x", ttl=5)
    desk.now = 6 * SECOND
    assert desk.released("x").reason == "expired"
    desk.ask("y")
    desk.at(9)
    answer = desk.released("y")
    assert (answer.reason, answer.held_us) == (None, 3 * SECOND)


def test_rule_18_renewing_never_shortens(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x", ttl=60)
    desk.at(1)
    assert desk.renew("x", 5) == "renewed"
    assert desk.leases["x"].expires_us == 60 * SECOND


def test_rule_18_max_lease_caps_the_grant_and_every_renewal(make: Any) -> None:
    desk = Desk(make, 2, max_lease_us=20 * SECOND)
    desk.ask("long", ttl=50)
    desk.ask("short", ttl=15)
    assert desk.leases["long"].expires_us == 20 * SECOND
    desk.at(10)
    desk.renew("short", 15)
    assert desk.leases["short"].expires_us == 20 * SECOND
    assert desk.at(20) == ["ended long expired", "ended short expired"]


def test_rule_18_a_lowered_max_lease_does_not_shorten_what_was_given(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x", ttl=60)
    desk.change(max_lease_us=10 * SECOND)
    desk.at(5)
    assert desk.renew("x", 60) == "renewed"
    assert desk.leases["x"].expires_us == 60 * SECOND


def test_rule_19_a_paused_pool_grants_nothing_while_leases_renew_and_release(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x")
    desk.ask("y")
    desk.change(state="paused")
    assert desk.renew("x") == "renewed"
    assert desk.release("x") == ["ended x released"]
    assert desk.ask("z") == "waits"
    assert desk.ask("try", timeout=0) == "pool-paused"
    assert desk.change(state="active") == ["granted y"]


def test_rule_19_nobody_gets_a_turn_saved_while_the_pool_is_paused(make: Any) -> None:
    desk = Desk(make, 2)
    desk.ask("a1", "a")
    desk.change(state="paused")
    desk.ask("large", "a", 2)
    desk.ask("new", "b")
    assert desk.order() == ["new", "large"]


def test_rule_19_a_draining_pool_refuses_newcomers_and_serves_waiters_and_repeats(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x", key="x")
    desk.ask("y", key="y")
    desk.change(state="draining")
    assert desk.ask("new") == "pool-draining"
    assert desk.ask("try", timeout=0) == "pool-draining"
    assert desk.ask("large", permits=2) == "exceeds-capacity"  # checked before
    assert desk.ask("x", key="x") == "existing"
    assert desk.ask("y", key="y") == "waits"
    assert desk.release("x") == ["ended x released", "granted y"]
    desk.change(state="active")
    assert desk.ask("new") == "waits"


def test_rule_14_a_connection_that_blips_loses_no_place_to_anybody(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("u0", "u")
    desk.ask("v1", "v", priority="background")
    desk.ask("t1", "t", priority="background", key="k")
    desk.ask("v2", "v", priority="critical")
    assert desk.release("u0") == ["ended u0 released", "granted v2"]
    desk.ask("u1", "u")
    assert desk.release("v2") == ["ended v2 released", "granted u1"]
    assert desk.order() == ["t1", "v1"]  # both hold nothing; v has had one since t came
    desk.disconnect("t1")
    assert desk.ask("t1", "t", priority="background", key="k") == "waits"
    assert desk.order() == ["t1", "v1"]


def test_rule_14_a_kept_grant_that_a_repeat_was_given_is_not_dropped_under_it(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x", key="k")
    desk.undelivered("x")
    desk.at(KEPT - 0.000001)
    assert desk.ask("x", key="k") == "existing"  # its answer is on the way
    assert desk.at(KEPT) == []
    assert desk.undelivered("x") == []  # lost again: kept as long again
    assert desk.at(2 * KEPT) == ["ended x dropped"]
