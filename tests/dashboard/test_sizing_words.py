"""The Sizing tab's words, form and picture, without a server."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import RequestFactory
from django.utils.translation import override

from dashboard.pool.log import _runs, entry_of
from dashboard.pool.query import Query
from dashboard.pool.sizing import seconds_of
from dashboard.pool.sizing_form import RULES, form_fields, sizing_from, values_of
from dashboard.pool.sizing_picture import picture
from dashboard.pool.sizing_words import reason_in_words
from dashboard.pool.week import entries_of, lines_of
from relay.http import Problem
from relay.permits.engine.base import SECOND
from relay.permits.sizing.adaptive import Adaptive
from relay.permits.sizing.estimators import Gradient2, Vegas
from relay.permits.sizing.load import ByLoad
from relay.permits.sizing.replay import Second, replay
from relay.permits.sizing.schedule import BySchedule, Entry
from relay.permits.sizing.sizer import Sizing
from tests.dashboard.test_pool_words import change

NOW = 1_800_014_400


def second(at: int, **given: Any) -> Second:
    return Second(**{"at": NOW + at, "capacity": 10, "in_use": 0} | given)


def reasons() -> set[str]:
    """Every reason that the real policies give."""
    runs = [
        (ByLoad(window_s=5), {}, [second(at, in_use=9) for at in range(30)]),
        (ByLoad(window_s=5), {}, [second(at) for at in range(30)]),
        (ByLoad(), {}, [second(at, in_use=10, waiting=3, oldest_wait_us=9 * SECOND) for at in range(30)]),
        (ByLoad(), {"minimum": 20}, [second(0)]),
        (ByLoad(), {"maximum": 5}, [second(0)]),
        (ByLoad(), {"pin": 12}, [second(0)]),
        (Adaptive(), {}, [second(at, in_use=10, granted=20) for at in range(30)]),
        *[
            (Adaptive(), {}, [second(at, in_use=10, granted=9, bad={word: 9}) for at in range(9)])
            for word in ("throttled", "timeout", "error")
        ],
        (BySchedule((Entry("08:00", 30),)), {}, [second(0)]),
        (BySchedule((Entry("11:59", 30), Entry("01:00", 10)), ramp_s=600), {}, [second(0)]),
    ]
    found = set()
    for policy, given, past in runs:
        sizing = Sizing(**{"policy": policy, "minimum": 1, "maximum": 50, "cooldown_s": 0} | given)  # type: ignore[arg-type]
        made = {decision.reason for _at, decision in replay(sizing, past).decisions}
        assert made, (policy, given)
        found |= made
    return found | estimated()


def estimated() -> set[str]:
    """The reasons of the latency algorithms."""
    gradient, vegas = Gradient2(), Vegas()
    for held_us in (100_000, 100_000, 900_000):
        gradient.observe(held_us)
        vegas.observe(held_us)
        proposals = [gradient.propose(10, 10), vegas.propose(10, 10)]
    return {f"{proposal.reason}: 10 to 9" for proposal in proposals if proposal}


def test_every_reason_is_said_in_the_readers_language_with_its_numbers() -> None:
    found = reasons()
    assert len({reason.split()[0] for reason in found}) >= 8
    for reason in found:
        with override("en"):
            assert ": 10 to" not in reason_in_words(reason)
        with override("zh-hans"):
            said = reason_in_words(reason)
        assert any("\u4e00" <= letter <= "\u9fff" for letter in said), reason
        assert not any(word in said for word in ("load", "calls", "minimum", "throttled", "Fri")), said


def test_a_reason_that_nobody_knows_stays_as_it_is() -> None:
    assert reason_in_words("a new idea: 3 to 4") == "a new idea"


@pytest.mark.parametrize(
    ("line", "days"),
    [
        ("daily 08:00 40", "mon tue wed thu fri sat sun"),
        ("mon-fri 8:00 40", "mon tue wed thu fri"),
        ("Sat,Sun 08:00 40", "sat sun"),
        ("sat-mon 08:00 40", "sat sun mon"),
        ("wed 08:00 40", "wed"),
    ],
)
def test_a_weeks_line_names_days_a_time_and_a_size(line: str, days: str) -> None:
    assert entries_of(f"\n{line}\n") == [{"days": days.split(), "at": "08:00", "capacity": 40}]


@pytest.mark.parametrize("line", ["mon 08:00", "mun 08:00 4", "mon-fry 08:00 4", "mon 08:00 four", "mon 08:00 -4"])
def test_a_line_that_says_nothing_is_named(line: str) -> None:
    with pytest.raises(Problem) as caught:
        entries_of(f"daily 01:00 3\n{line}")
    assert caught.value.errors == {"policy.entries": [caught.value.detail.removeprefix("policy.entries: ")]}
    assert "line 2" in caught.value.detail


def test_lines_and_entries_come_back_as_they_were() -> None:
    text = "mon-fri 08:00 40\nmon,wed 12:30 50\nsat,sun 10:00 12\ndaily 22:00 8"
    assert "\n".join(lines_of(entries_of(text))) == text


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "fixed"])
def test_what_a_form_holds_at_first_is_a_sizing_and_comes_back_the_same(rule: str) -> None:
    values = values_of(rule, None, 10)
    assert [field.name for field in form_fields(rule, values)] == list(values)
    sizing = sizing_from(rule, values)
    assert sizing_from(rule, values_of(rule, sizing, 99)) == sizing
    assert (sizing.minimum, sizing.maximum) == (5, 20)


def test_an_empty_bound_on_waiting_is_none_and_other_empty_fields_have_their_usual_value() -> None:
    sizing = sizing_from("load", {"minimum": "2", "maximum": "8", "max_wait_s": "", "step": " "})
    assert sizing.policy == ByLoad(max_wait_s=None)
    assert sizing.cooldown_s is None


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"maximum": "1"}, "maximum"),
        ({"minimum": "two"}, "minimum"),
        ({"grow_above": "80%"}, "policy.grow_above"),
        ({"shrink_below": "0.79"}, "policy.shrink_below"),
    ],
)
def test_a_wrong_field_is_named(given: dict[str, str], field: str) -> None:
    with pytest.raises(Problem) as caught:
        sizing_from("load", {"minimum": "2", "maximum": "8"} | given)
    assert list(caught.value.errors or {}) == [field]


def test_the_address_keeps_what_was_typed_on_this_tab_only() -> None:
    request = RequestFactory().get("/pools/gpu/?tab=sizing&rule=load&minimum=3&colour=red&range=5m")
    query = Query.of(request, "gpu")
    assert query.to(range="15m") == "/pools/gpu/?tab=sizing&rule=load&minimum=3"
    assert query.to(tab="holders") == "/pools/gpu/?range=5m"
    assert query.to(rule="adaptive", sizing=()) == "/pools/gpu/?range=5m&tab=sizing&rule=adaptive"


def test_a_picture_has_at_most_300_points_a_gap_where_there_was_no_sample_and_says_what_happened() -> None:
    past = [second(at) for at in range(900) if not 300 <= at < 330]
    sizes = [10 if one.at < NOW + 500 else 14 for one in past]
    found = picture(past, sizes, [object()])
    assert found.minutes == 15
    for path, _css in found.paths:
        assert path.count("M") == 2
        assert path.count("V") + path.count("L") <= 304
    assert found.said == "One decision, between 10 and 14 permits; 14 at the end, where it was 10."


def test_samples_are_replayed_with_what_went_wrong_in_their_second() -> None:
    row = [NOW, 5.0, 0.1, 10, 9, 3, 2.5, 0, 5, 0, 0, 0, 4]
    (found,) = seconds_of([row], {NOW: ({"error": 2}, 600)})
    assert found == Second(NOW, 10, 9, 3, 2_500_000, 5, {"error": 2}, 300)


def decision(number: int, at: str, before: int, after: int) -> dict[str, Any]:
    return change(
        id=number,
        at=f"2026-11-30T02:{at}.000000Z",
        actor_kind="system",
        actor="sizing",
        action="resize",
        before={"name": "gpu", "capacity": before, "max_waiters": 5},
        after={"name": "gpu", "capacity": after, "max_waiters": 5},
        reason=f"load 0.93 over 0.80 for 30 s: {before} to {after}",
    )


def test_a_decision_is_a_mark_with_its_reason() -> None:
    mark = entry_of(decision(1, "00:00", 20, 22)).mark()
    assert mark["text"] == "sizing 20 → 22"
    assert mark["title"] == "sizing: capacity 20 → 22 · load 0.93 over 0.80 for 30 s"


def test_decisions_that_follow_each_other_are_one_mark_until_somebody_else_acts() -> None:
    by_hand = change(id=4, at="2026-11-30T02:00:20.000000Z", before={"capacity": 24}, after={"capacity": 30})
    rows = [
        decision(1, "00:00", 20, 22),
        decision(2, "00:10", 22, 24),
        by_hand,
        decision(5, "00:25", 30, 31),
        decision(6, "01:40", 31, 32),
    ]
    found = [entry_of(row).mark() for row in _runs(rows, 60)]
    assert [mark["text"] for mark in found] == ["sizing 20 → 24", "lin 24 → 30", "sizing 30 → 31", "sizing 31 → 32"]
    assert found[0]["title"].endswith("30 s, the last of 2 steps")


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (None, {"cooldown_s": None}, "sized Fixed → By load, Minimum → 2, Maximum → 8"),
        ({}, {"pin": 6}, "Pinned at – → 6"),
        ({}, {"policy": {"kind": "load", "step": 0.2}}, "Step, as a part of the size 0.1 → 0.2"),
        ({"dry_run": True}, {}, "Dry run yes → no"),
    ],
)
def test_a_change_of_the_sizing_says_what_of_it_changed(
    before: dict[str, Any] | None, after: dict[str, Any], line: str
) -> None:
    base = {"policy": {"kind": "load", "step": 0.1}, "minimum": 2, "maximum": 8, "pin": None, "dry_run": False}
    given = None if before is None else base | before
    row = change(action="sizing", before={"sizing": given}, after={"sizing": base | after})
    assert entry_of(row).line == line
    back = change(action="sizing", before={"sizing": base}, after={"sizing": None})
    assert entry_of(back).line.startswith("sized By load → Fixed")
