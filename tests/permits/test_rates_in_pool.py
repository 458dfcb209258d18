"""Rates beside concurrency, in the core: a grant needs its permits and its rates, decided together. Times in seconds.

60 a minute is one a second, so the numbers of these tests are seconds as well.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from relay.permits.engine.base import SECOND, Share
from relay.permits.engine.core import PoolCore
from relay.permits.engine.rates import Rate
from relay.permits.engine.timeline import NEVER
from tests.permits.driver import Desk, build

FEW = Rate(60, 2)  # requests: one a second, two at once
SOME = Rate(600, 100)  # tokens: ten a second, a hundred at once


def rated(capacity: int = 4, requests: Rate | None = None, tokens: Rate | None = None, **config: Any) -> Desk:
    return Desk(PoolCore, capacity, requests=requests, tokens=tokens, **config)


def levels(desk: Desk) -> dict[str, float]:
    assert desk.pool.rates is not None
    return {kind: level for kind, (_, level) in desk.pool.rates.levels(desk.now).items()}


def test_a_try_that_a_rate_refuses_is_told_the_exact_moment() -> None:
    desk = rated(requests=FEW)
    assert [desk.ask(name, timeout=0) for name in "abc"] == ["granted", "granted", "rate-limited"]
    desk = rated(tokens=SOME)
    desk.ask("a", tokens=100)
    refused = desk.refusal("b", tokens=35)
    assert (refused.code, refused.retry_after_us) == ("rate-limited", 3_500_000)
    assert "tokens" in refused.detail
    desk.now = 3_500_000 - 1
    assert desk.ask("b", tokens=35, timeout=0) == "rate-limited"
    desk.now = 3_500_000
    assert desk.ask("b", tokens=35, timeout=0) == "granted"


def test_a_waiter_blocked_by_a_rate_holds_no_permit_and_wakes_when_the_bucket_refills() -> None:
    desk = rated(tokens=SOME)
    desk.ask("a", tokens=100)
    assert desk.ask("b", tokens=50) == "waits"
    assert (desk.pool.in_use, desk.pool.waiting) == (1, 1)
    assert desk.pool.next_due() == 5 * SECOND
    assert desk.at(4.999999) == []
    assert desk.at(5) == ["granted b"]
    assert desk.leases["b"].waited_us == 5 * SECOND
    assert desk.pool.rate_due == NEVER


def test_permits_that_come_free_do_not_shorten_the_wait_for_a_rate() -> None:
    desk = rated(1, requests=Rate(60, 1))
    desk.ask("a")
    desk.ask("b")
    assert desk.pool.rate_due == NEVER  # it waits for the permit
    assert desk.release("a") == ["ended a released"]
    assert desk.pool.rate_due == 1 * SECOND
    assert desk.at(1) == ["granted b"]


def test_nobody_slips_past_a_waiter_that_a_rate_blocks() -> None:
    desk = rated(tokens=SOME)
    desk.ask("x", "a", tokens=90)
    assert desk.ask("big", "a", tokens=100) == "waits"  # its tenant holds, so by shares the others come first
    assert desk.ask("small", "b", tokens=1) == "waits"
    assert desk.ask("none", "c") == "waits"
    assert desk.ask("try", "d", tokens=1, timeout=0) == "rate-limited"
    assert desk.order() == ["big", "small", "none"]
    assert desk.at(8.9) == []
    assert desk.at(9) == ["granted big"]
    assert desk.at(9.1) == ["granted small", "granted none"]


def test_who_is_guaranteed_and_more_urgent_goes_before_a_kept_turn() -> None:
    desk = rated(requests=FEW, shares={"b": Share(guarantee=1)})
    desk.ask("x", "a")
    desk.ask("y", "a")
    desk.ask("kept", "a", priority="batch")
    desk.ask("urgent", "b", priority="critical")
    assert desk.at(1) == ["granted urgent"]
    assert desk.at(2) == ["granted kept"]


def test_more_tokens_than_the_burst_are_refused_at_once_by_the_fields_name() -> None:
    desk = rated(tokens=SOME)
    refused = desk.refusal("a", tokens=101, timeout=100)
    assert (refused.code, refused.retry_after_us) == ("invalid", None)
    assert refused.detail.startswith("tokens: at most 100 ")
    assert desk.ask("a", tokens=100) == "granted"


def test_a_smaller_burst_ends_who_can_never_be_let_through_and_the_others_move() -> None:
    desk = rated(tokens=SOME)
    desk.ask("x", tokens=100)
    desk.ask("big", tokens=60)
    desk.ask("small", "b", tokens=10)
    assert desk.change(tokens=Rate(600, 50)) == ["left big invalid"]
    assert desk.at(1) == ["granted small"]


@pytest.mark.parametrize(
    ("config", "ask", "code"),
    [
        ({}, {"tokens": 60}, "rate-limited"),
        ({}, {"tokens": 101}, "invalid"),
        ({}, {"permits": 5, "tokens": 1}, "exceeds-capacity"),
        ({"shares": {"a": Share(limit=1)}}, {"permits": 2, "tokens": 1}, "exceeds-tenant-limit"),
        ({}, {"permits": 4, "tokens": 1}, "acquire-timeout"),
        ({"state": "paused"}, {"tokens": 1}, "pool-paused"),
        ({"state": "draining"}, {"tokens": 1}, "pool-draining"),
        ({"max_waiters": 0}, {"permits": 4, "tokens": 1, "timeout": 9}, "queue-full"),
    ],
)
def test_case_4_a_refusal_leaves_every_bucket_as_it_was(config: dict[str, Any], ask: dict[str, Any], code: str) -> None:
    desk = rated(requests=FEW, tokens=SOME)
    desk.ask("x", "b", tokens=50)
    desk.change(**config)
    before = levels(desk)
    assert desk.refusal("y", **ask).code == code
    assert levels(desk) == before == {"requests": 1.0, "tokens": 50.0}


def test_waiting_in_vain_uses_nothing_up_and_says_that_the_rate_was_it() -> None:
    desk = rated(tokens=SOME)
    desk.ask("x", tokens=100)
    desk.ask("y", tokens=50, timeout=2)
    desk.now = 2 * SECOND
    desk.pool.advance(desk.now)
    (left,) = desk.pool.take_events()
    assert (left.code, left.by_rate) == ("acquire-timeout", True)
    assert desk.pool.retry_us(left.waiter) >= 3 * SECOND
    assert levels(desk) == {"tokens": 20.0}


def test_who_waits_in_vain_for_a_permit_is_not_told_of_a_rate() -> None:
    desk = rated(1, tokens=SOME)
    desk.ask("x", tokens=100)
    desk.ask("y", tokens=50, timeout=2)
    desk.now = 2 * SECOND
    desk.pool.advance(desk.now)
    assert desk.pool.take_events()[0].by_rate is False
    assert desk.ask("z", tokens=50, timeout=0) == "acquire-timeout"


def test_a_grant_that_was_not_delivered_is_given_back_to_the_buckets() -> None:
    desk = rated(requests=FEW, tokens=SOME)
    desk.ask("x", tokens=100)
    desk.ask("y", tokens=100)
    assert desk.undelivered("x") == ["ended x dropped", "granted y"]
    assert levels(desk) == {"requests": 1.0, "tokens": 0.0}
    desk.pool.take_back(desk.leases["y"].lease_id)
    assert levels(desk) == {"requests": 2.0, "tokens": 100.0}


def test_a_grant_kept_for_its_key_is_given_back_when_nobody_comes_for_it() -> None:
    desk = rated(tokens=SOME, reconnect_grace_us=3 * SECOND)
    desk.ask("x", tokens=100, key="k")
    desk.undelivered("x")
    assert levels(desk) == {"tokens": 0.0}
    assert desk.at(3) == ["ended x dropped"]
    assert levels(desk) == {"tokens": 100.0}  # 30 came in, 100 were given back, and the burst is the most


@pytest.mark.parametrize("end", ["release", "revoke"])
def test_what_was_delivered_stays_charged(end: str) -> None:
    desk = rated(tokens=SOME)
    desk.ask("x", tokens=100)
    getattr(desk, end)("x")
    assert levels(desk) == {"tokens": 0.0}


def test_a_release_settles_the_true_number_and_serves_who_waits_for_it() -> None:
    desk = rated(tokens=SOME)
    desk.ask("x", tokens=100)
    desk.ask("y", tokens=60)
    assert desk.release("x", tokens=40) == ["ended x released", "granted y"]
    assert levels(desk) == {"tokens": 0.0}
    desk.release("y", tokens=160)
    assert levels(desk) == {"tokens": -100.0}
    assert desk.refusal("z", tokens=1).retry_after_us == 10_100_000


def test_a_late_release_settles_nothing() -> None:
    desk = rated(tokens=SOME)
    desk.ask("x", tokens=100)
    desk.revoke("x")
    desk.release("x", tokens=0)
    assert levels(desk) == {"tokens": 0.0}


def test_who_states_no_tokens_is_let_through_in_debt_but_not_past_a_waiter() -> None:
    desk = rated(tokens=SOME)
    desk.ask("x", tokens=100)
    desk.release("x", tokens=500)
    assert desk.ask("free", timeout=0) == "granted"
    assert desk.ask("y", tokens=1) == "waits"
    assert desk.ask("later", timeout=0) == "rate-limited"


def test_a_paused_pool_fills_its_buckets_and_serves_nobody() -> None:
    desk = rated(tokens=SOME)
    desk.ask("x", tokens=100)
    desk.ask("y", tokens=100)
    desk.change(state="paused")
    assert desk.pool.rate_due == NEVER
    assert desk.at(20) == []
    assert desk.change(state="active") == ["granted y"]
    assert levels(desk) == {"tokens": 0.0}


def test_an_absent_waiter_gives_up_its_turn_to_who_can_be_let_through() -> None:
    desk = rated(tokens=SOME)
    desk.ask("x", tokens=90)
    desk.ask("big", tokens=100, key="k")
    desk.ask("small", "b", tokens=10)
    assert desk.disconnect("big") == ["granted small"]
    assert desk.ask("big", tokens=100, key="k") == "waits"


def test_rates_change_live_both_ways() -> None:
    desk = rated(tokens=SOME)
    desk.ask("x", tokens=100)
    desk.ask("y", tokens=50)
    assert desk.change(tokens=Rate(6000, 100)) == []
    assert desk.pool.next_due() == SECOND // 2
    desk.change(tokens=Rate(60, 100))
    assert desk.pool.next_due() == 50 * SECOND
    assert desk.change(tokens=None) == ["granted y"]
    assert desk.pool.rates is None


def test_the_same_key_with_other_tokens_is_a_conflict() -> None:
    desk = rated(tokens=SOME)
    desk.ask("x", tokens=10, key="k")
    assert desk.ask("x", tokens=10, key="k") == "existing"
    assert desk.ask("x", tokens=11, key="k") == "idempotency-conflict"
    assert levels(desk) == {"tokens": 90.0}


def test_case_5_after_a_restart_buckets_begin_empty_and_everything_moves() -> None:
    before = rated(tokens=SOME)
    before.ask("x", tokens=100)
    desk = rated(tokens=SOME)
    desk.pool = build(partial(PoolCore, used_up=True), desk.config, weights={}, fencing=10)
    desk.pool.restore(before.leases["x"])
    assert (desk.pool.in_use, levels(desk)) == (1, {"tokens": 0.0})
    assert desk.ask("y", tokens=100) == "waits"
    assert desk.pool.next_due() == 10 * SECOND
    assert desk.at(10) == ["granted y"]


def test_a_waiter_behind_another_is_told_a_time_for_both() -> None:
    desk = rated(tokens=SOME)
    desk.ask("x", tokens=100)
    desk.ask("y", tokens=40)
    desk.ask("z", "b", tokens=30)
    assert desk.pool.expected_wait_us(0, 1, 40) == 4 * SECOND
    assert desk.pool.expected_wait_us(0, 2, 70) == 7 * SECOND
    assert desk.refusal("t", tokens=10).retry_after_us == 8 * SECOND
