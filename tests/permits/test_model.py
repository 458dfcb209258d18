"""The order of service, rules 5 to 9 and 12, worked out by hand; for the model and for the core alike."""

from __future__ import annotations

from typing import Any

import pytest

from relay.permits.engine.base import SECOND, Share
from relay.permits.engine.core import PoolCore
from tests.permits.driver import Desk
from tests.permits.model import ReferencePool

pytestmark = pytest.mark.parametrize("make", [ReferencePool, PoolCore])


def test_rule_5a_guaranteed_background_goes_before_others_critical(make: Any) -> None:
    desk = Desk(make, 1, shares={"g": Share(guarantee=1)})
    desk.ask("now", "x")
    desk.ask("urgent", "a", priority="critical")
    desk.ask("owed", "g", priority="background")
    assert desk.order() == ["owed", "urgent"]
    assert desk.release("now") == ["ended now released", "granted owed"]


def test_rule_5a_a_guarantee_covers_only_what_stays_within_it(make: Any) -> None:
    desk = Desk(make, 4, shares={"g": Share(guarantee=2)})
    desk.ask("now", "x", 4)
    desk.ask("large", "g", 3)
    desk.ask("plain", "a", 1)
    desk.ask("small", "g", 2, "background")
    assert desk.order() == ["small", "plain", "large"]


def test_rule_5b_classes_are_served_by_rank(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("now")
    for priority in ("background", "interactive", "critical", "batch"):
        desk.ask(priority, priority=priority)
    assert desk.served(4) == ["critical", "interactive", "batch", "background"]


@pytest.mark.parametrize(("second", "order"), [(9.999999, ["new", "old"]), (10, ["old", "new"])])
def test_rule_5b_a_whole_step_of_waiting_lowers_the_rank_by_one(make: Any, second: float, order: list[str]) -> None:
    desk = Desk(make, 1, aging_us=10 * SECOND)
    desk.ask("now", "x")
    desk.ask("old", "a", priority="batch")
    desk.at(5)
    desk.ask("new", "a", priority="interactive")
    desk.at(second)
    assert desk.order() == order
    assert desk.waiters["old"].ask.priority == "batch"


def test_rule_5b_the_effective_rank_stops_at_zero(make: Any) -> None:
    desk = Desk(make, 1, aging_us=SECOND)
    desk.ask("now", "x")
    desk.ask("hold", "a", 1)
    desk.ask("older", "a", priority="interactive")
    desk.at(50)
    desk.ask("critical", "b", priority="critical")
    assert desk.order() == ["hold", "critical", "older"]  # b holds and has had less: rank 0 does not go below


def test_rule_5b_without_aging_priority_is_strict(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("now", "x")
    desk.ask("old", priority="background", timeout=100_000)
    desk.at(50_000)
    desk.ask("new", priority="batch")
    assert desk.order() == ["new", "old"]


def test_rule_5b_time_on_a_paused_pool_does_not_age(make: Any) -> None:
    desk = Desk(make, 1, aging_us=10 * SECOND)
    desk.ask("now", "x")
    desk.ask("old", priority="batch")
    desk.at(5)
    desk.change(state="paused")
    desk.at(100)
    desk.change(state="active")
    desk.ask("new", priority="interactive")
    desk.at(104)
    assert desk.order() == ["new", "old"]
    desk.at(105)
    assert desk.order() == ["old", "new"]


def test_rule_5b_a_rank_changes_and_grants_with_nobody_calling(make: Any) -> None:
    desk = Desk(make, 3, aging_us=10 * SECOND, shares={"a": Share(limit=2)})
    desk.ask("held", "a")
    desk.ask("x", "x", 2)
    desk.ask("small", "a", 1, "batch")
    desk.at(5)
    desk.ask("large", "a", 2, "interactive")
    assert desk.release("x") == ["ended x released"]  # large stands first: tenant a would exceed its limit
    due = desk.pool.next_due()
    assert due <= 11 * SECOND
    assert desk.at(9.9) == []
    assert desk.at(10) == ["granted small"]


def test_rule_5c_the_tenant_with_least_in_use_by_weight_is_next(make: Any) -> None:
    desk = Desk(make, 3, weights={"a": 2.0})
    for holder, tenant in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        desk.ask(holder, tenant)
    desk.ask("b2", "b")
    desk.ask("a3", "a")
    # in use by weight: a 2/2, b 1/1; virtual time: a 1, b 0 + 1 (it came when a had 1: starts at 1)
    assert next(iter(desk.pool.queue(1)))[0].ask.holder == "a3"


def test_rule_5c_a_pools_own_weight_overrides_the_tenants(make: Any) -> None:
    desk = Desk(make, 4, weights={"a": 1.0, "b": 1.0}, shares={"a": Share(weight=3.0)})
    for holder in ("b1", "a1", "a2", "a3"):
        desk.ask(holder, holder[0])
    for number in range(4, 8):
        desk.ask(f"b{number}", "b")
        desk.ask(f"a{number}", "a")
    # oldest released first; 3 of every 4 grants go to a
    assert [holder[0] for holder in desk.served(4)].count("a") == 3


def test_rule_5c_wants_of_1_3_and_20_of_12_get_1_3_and_8(make: Any) -> None:
    desk = Desk(make, 12)
    desk.ask("now", "x", 12)
    for tenant, wants in (("big", 20), ("mid", 3), ("one", 1)):
        for number in range(wants):
            desk.ask(f"{tenant}{number}", tenant)
    desk.release("now")
    assert [desk.pool.tenant_in_use(tenant) for tenant in ("one", "mid", "big")] == [1, 3, 8]


def test_rule_5c_an_idle_tenant_saves_nothing_up(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("b0", "b")
    desk.release("b0")
    desk.ask("a0", "a")
    for number in range(1, 41):
        desk.ask(f"a{number}", "a")
    desk.served(30)
    for number in range(1, 11):
        desk.ask(f"b{number}", "b")
    grants = [holder[0] for holder in desk.served(8)]
    assert grants == ["a", "b"] * 4  # alike from its return on; without that b would have its 31 missed turns in a row


def test_rule_5c_where_nobody_is_active_a_newcomer_starts_at_the_highest_virtual_time(make: Any) -> None:
    desk = Desk(make, 1)
    for number in range(5):
        desk.ask(f"a{number}", "a")
        desk.release(f"a{number}")
    desk.ask("b0", "b")  # starts at 5, has 6 now
    desk.ask("a9", "a")  # starts at 6 (the least of those active), its own is 5
    desk.ask("b1", "b")
    desk.release("b0")
    assert desk.holders() == ["a9"]  # both hold 0 and have 6: a9 came first


def test_rule_5c_leaving_and_coming_back_wipes_nothing_out(make: Any) -> None:
    desk = Desk(make, 2)
    desk.ask("c0", "c")
    for number in range(5):
        desk.ask(f"a{number}", "a")
        desk.release(f"a{number}")
    desk.ask("d0", "d")
    desk.ask("a9", "a")  # its own 6 is more than c's 1
    desk.ask("e0", "e")  # starts at 1
    assert desk.order() == ["e0", "a9"]


def test_rule_5c_a_refused_try_does_not_move_virtual_time(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("a0", "a")
    desk.release("a0")
    desk.ask("c0", "c")
    assert desk.ask("probe", "b", timeout=0) == "acquire-timeout"
    desk.ask("c1", "c")
    desk.release("c0")
    desk.release("c1")
    desk.ask("x", "c")
    desk.ask("b1", "b")
    desk.ask("a1", "a")
    assert desk.order() == ["b1", "a1"]  # all start alike


def test_rule_5c_an_undelivered_grant_does_not_give_its_virtual_time_back(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("lost", "a")
    desk.ask("b1", "b")  # starts at a's 1
    desk.ask("a1", "a")
    assert desk.undelivered("lost") == ["ended lost dropped", "granted b1"]


def test_rule_5d_many_at_the_same_instant_are_served_by_arrival(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("now")
    for number in range(60):
        desk.ask(f"w{number}")
    assert desk.served(60) == [f"w{number}" for number in range(60)]


def test_rule_6_a_tenant_over_its_limit_is_passed_over_and_blocks_nobody(make: Any) -> None:
    desk = Desk(make, 4, shares={"a": Share(limit=2)})
    desk.ask("a1", "a", 2)
    assert desk.ask("a2", "a", 1, "critical") == "waits"
    assert desk.ask("b1", "b", 1, "background") == "granted"
    assert desk.order() == ["a2?"]
    assert desk.release("a1") == ["ended a1 released", "granted a2"]


def test_rule_6_a_tenant_whose_next_waiter_is_over_the_limit_is_passed_over_whole(make: Any) -> None:
    desk = Desk(make, 4, shares={"a": Share(limit=3)})
    desk.ask("a1", "a", 2)
    desk.ask("a2", "a", 2, "critical")
    assert desk.ask("a3", "a", 1) == "waits"  # would fit, but stands behind a2
    assert desk.ask("b1", "b", 2) == "granted"


def test_rule_6_idle_guaranteed_permits_are_lent_and_come_back_first(make: Any) -> None:
    desk = Desk(make, 2, shares={"g": Share(guarantee=2)})
    desk.ask("a1", "a")
    assert desk.ask("a2", "a") == "granted"
    desk.ask("a3", "a", priority="critical")
    desk.ask("g1", "g", priority="background")
    desk.ask("g2", "g", priority="background")
    assert desk.served(2) == ["g1", "g2"]


def test_rule_6_who_waits_for_the_pool_to_grow_blocks_nobody(make: Any) -> None:
    desk = Desk(make, 2, ceiling=8)
    assert desk.ask("huge", "a", 6) == "waits"
    assert desk.ask("behind", "a", 1) == "waits"
    assert desk.ask("other", "b", 2) == "granted"
    assert desk.order() == ["huge?", "behind?"]
    assert desk.change(capacity=8) == ["granted huge"]


def test_rule_7_nobody_smaller_slips_past_who_is_saved_up_for(make: Any) -> None:
    desk = Desk(make, 8)
    for number in range(8):
        desk.ask(f"s{number}", "s")
    desk.ask("large", "b", 8)
    for number in range(8):
        desk.ask(f"t{number}", "s")
    for number in range(7):
        assert desk.release(f"s{number}") == [f"ended s{number} released"]
        assert desk.ask("try", "c", timeout=0, priority="interactive") == "acquire-timeout"
    assert desk.release("s7") == ["ended s7 released", "granted large"]


def test_rule_7_a_saved_waiter_keeps_its_turn_against_better_shares(make: Any) -> None:
    desk = Desk(make, 3)
    desk.ask("a1", "a", 2)
    desk.ask("large", "a", 2)  # one permit is held back for it
    assert desk.ask("new", "b") == "waits"  # b holds less, but large is saved up for
    assert desk.order() == ["large", "new"]


def test_rule_7_in_a_pool_that_is_just_full_nobody_is_saved_up_for(make: Any) -> None:
    desk = Desk(make, 2)
    desk.ask("a1", "a", 2)
    desk.ask("large", "a", 2)
    desk.ask("new", "b")
    assert desk.order() == ["new", "large"]


def test_rule_7_only_a_lower_rank_within_the_guaranteed_comes_before(make: Any) -> None:
    desk = Desk(make, 4, shares={"g": Share(guarantee=1), "h": Share(guarantee=1)})
    desk.ask("a1", "a", 3)
    desk.ask("large", "b", 2)
    assert desk.ask("urgent", "c", 1, "critical") == "waits"  # not guaranteed
    assert desk.ask("alike", "g", 1, "interactive") == "waits"  # guaranteed, same rank
    assert desk.ask("before", "h", 1, "critical") == "granted"


def test_rule_7_several_keep_their_turn_the_earlier_saved_first(make: Any) -> None:
    desk = Desk(make, 4, shares={"g": Share(guarantee=4)})
    desk.ask("a1", "a", 3)
    desk.ask("first", "b", 2)
    assert desk.ask("second", "g", 3, "critical") == "waits"  # before it by rank, and saved up for too
    assert desk.order() == ["second", "first"]
    desk.cancel("second")
    assert desk.ask("third", "c", 1) == "waits"
    assert desk.release("a1") == ["ended a1 released", "granted first", "granted third"]


def test_rule_7_of_two_in_one_rank_the_earlier_saved_is_first(make: Any) -> None:
    desk = Desk(make, 4, aging_us=10 * SECOND, shares={"g": Share(guarantee=4)})
    desk.ask("a1", "a", 2)
    desk.ask("b1", "b", 1)
    desk.ask("first", "b", 2)
    desk.ask("second", "g", 3, "critical")
    assert desk.order() == ["second", "first"]
    desk.at(10)  # first has rank 0 now, too; g still holds less than b
    assert desk.order() == ["first", "second"]


def test_rule_7_who_is_passed_over_loses_the_turn(make: Any) -> None:
    desk = Desk(make, 4, shares={"a": Share(limit=3)})
    desk.ask("a1", "a", 1)
    desk.ask("x", "x", 2)
    desk.ask("saved", "a", 2)
    assert desk.ask("late", "b", 1) == "waits"
    assert desk.change(shares={"a": Share(limit=2)}) == ["granted late"]
    desk.change(shares={"a": Share(limit=3)})
    desk.ask("plain", "c", 2)
    assert desk.order() == ["plain", "saved"]  # c holds less than a


def test_rule_7_an_absent_waiter_gives_up_its_turn_but_not_its_place(make: Any) -> None:
    desk = Desk(make, 3)
    desk.ask("x", "x", 2)
    desk.ask("saved", "a", 2, key="k")
    assert desk.ask("b1", "b", 1) == "waits"
    assert desk.disconnect("saved") == ["granted b1"]
    desk.ask("a2", "a", 1)
    desk.ask("c1", "c", 1, "critical")
    assert desk.ask("saved", "a", 2, key="k") == "waits"
    assert desk.order() == ["c1", "saved", "a2"]


def test_rule_8_who_can_be_granted_at_once_and_has_nobody_in_front_never_queues(make: Any) -> None:
    desk = Desk(make, 3, shares={"g": Share(guarantee=1)})
    desk.ask("x", "x", 2)
    assert desk.ask("large", "b", 3) == "waits"
    assert desk.ask("guaranteed", "g", 1, "critical", timeout=0) == "granted"


def test_rule_8_a_due_lease_ends_before_a_due_deadline_before_a_grant(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("x", ttl=5)
    desk.ask("late", timeout=6)
    desk.ask("next", timeout=60)
    assert desk.at(7) == ["ended x expired", "left late acquire-timeout", "granted next"]


def test_rule_9_more_than_can_ever_be_granted_is_refused_at_once(make: Any) -> None:
    desk = Desk(make, 4, shares={"a": Share(limit=3), "b": Share(limit=9)})
    assert desk.ask("five", "c", 5) == "exceeds-capacity"
    assert desk.ask("both", "a", 5) == "exceeds-capacity"
    assert desk.ask("four", "a", 4) == "exceeds-tenant-limit"
    assert desk.ask("fits", "b", 4) == "granted"
    assert list(desk.pool.queue(10)) == []


def test_rule_9_a_ceiling_is_what_can_ever_be_granted(make: Any) -> None:
    desk = Desk(make, 2, ceiling=4)
    assert desk.ask("four", "a", 4) == "waits"
    assert desk.ask("five", "a", 5) == "exceeds-capacity"


@pytest.mark.parametrize("shares", [{}, {"a": Share(max_waiters=2)}])
def test_rule_12_past_the_bound_an_ask_is_refused_and_nobodys_turn_changes(make: Any, shares: Any) -> None:
    desk = Desk(make, 1, shares=shares, max_waiters=10 if shares else 2)
    desk.ask("now", "x")
    desk.ask("w1")
    desk.ask("w2")
    assert desk.ask("w3", priority="critical") == "queue-full"
    assert desk.order() == ["w1", "w2"]
    if shares:
        assert desk.ask("other", "b") == "waits"


def test_rule_12_who_is_granted_at_once_needs_no_place_in_the_queue(make: Any) -> None:
    desk = Desk(make, 1, max_waiters=0)
    assert desk.ask("first") == "granted"
    assert desk.ask("second") == "queue-full"


def test_no_starvation_one_background_ask_against_a_flood_of_critical(make: Any) -> None:
    desk = Desk(make, 2, aging_us=5 * SECOND)
    desk.ask("f0", "flood", priority="critical")
    desk.ask("f1", "flood", priority="critical")
    desk.ask("poor", "poor", priority="background")
    for second in range(1, 60):
        desk.at(second)
        for number in range(4):
            desk.ask(f"f{second}-{number}", "flood", priority="critical")
        if "poor" in desk.served(2):
            break
    assert second <= 16


def test_the_list_numbers_as_many_as_asked_for_then_goes_by_arrival(make: Any) -> None:
    desk = Desk(make, 1)
    desk.ask("now")
    for holder in ("b1", "i1", "b2", "i2", "c1"):
        desk.ask(holder, priority={"b": "batch", "i": "interactive", "c": "critical"}[holder[0]])
    rows = [(waiter.ask.holder, place) for waiter, place in desk.pool.queue(2)]
    assert rows == [("c1", 1), ("i1", 2), ("b1", None), ("b2", None), ("i2", None)]


def test_the_list_shows_passed_over_and_absent_waiters_last(make: Any) -> None:
    desk = Desk(make, 2, shares={"a": Share(limit=1)})
    desk.ask("a1", "a")
    desk.ask("x", "x")
    desk.ask("a2", "a")
    desk.ask("gone", "b", key="k")
    desk.ask("b1", "b")
    desk.disconnect("gone")
    assert desk.order() == ["b1", "a2?", "gone?"]


def test_rule_7_a_turn_lost_by_a_grant_to_a_newcomer_of_the_same_tenant_frees_the_others_at_once(make: Any) -> None:
    desk = Desk(make, 3, shares={"b": Share(limit=3, guarantee=2)})
    desk.ask("a1", "a")
    desk.ask("large", "b", 3)
    assert desk.ask("small", "d") == "waits"  # two permits are held back for large
    assert desk.ask("urgent", "b", 1, "critical") == "granted"
    # b's next waiter would now exceed b's limit: passed over, and nothing is held back any more
    assert desk.events() == ["granted small"]


def test_rule_6_a_shrink_passes_over_every_tenant_whose_next_waiter_it_leaves_no_room_for(make: Any) -> None:
    desk = Desk(make, 8, ceiling=8)
    desk.ask("x", "x", 4)
    desk.ask("five", "a", 5)
    desk.ask("eight", "b", 8)
    desk.change(capacity=5)
    assert desk.order() == ["five", "eight?"]
