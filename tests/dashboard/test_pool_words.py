"""What the pool page says and draws, from rows made by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.http import QueryDict
from django.test import RequestFactory

from dashboard.pool import fields
from dashboard.pool.charts import RANGES, ceiling, charts, columns, step_of
from dashboard.pool.figures import age, clock, countdown
from dashboard.pool.log import entry_of
from dashboard.pool.query import Query
from dashboard.pool.snippets import snippets

NOW = 1_800_000_000


def sample(at: int, granted: int = 0, wait: float | None = None, capacity: int = 8, in_use: int = 0) -> list[Any]:
    return [at, float(granted), wait, capacity, in_use, 0, 0.0, 0, granted, 0, 0, 0, 4]


def test_steps_average_rates_and_weigh_waits_by_grants() -> None:
    rows = [sample(NOW - 1, 1, 4.0), sample(NOW, 3, 0.0)]
    found = columns(rows, NOW, 8, 2)
    assert found["granted"] == [None, None, None, 1.0, 3.0][-4:]
    assert found["average_wait_s"][-2:] == [4.0, 0.0]
    assert columns([sample(NOW, 1, 4.0), sample(NOW + 1, 3, 0.0)], NOW + 1, 2, 2)["average_wait_s"] == [1.0]


def test_a_second_without_a_sample_stays_a_gap_in_every_line() -> None:
    rows = [sample(NOW - 2, 1, 0.1), sample(NOW, 1, 0.1)]
    drawn = charts(rows, RANGES["live"], NOW)
    for chart in drawn:
        for path, _css in chart.paths:
            assert path.count("M") in (0, 2)
    assert [values[0] for _at, values in drawn[0].rows[:3]] == ["1.0", "1.0", "–"]


def test_no_chart_has_more_than_300_points_and_no_table_more_than_30_rows() -> None:
    for range_s in RANGES.values():
        assert range_s / step_of(range_s) <= 300
        assert max(len(chart.rows) for chart in charts([], range_s, NOW)) <= 30


@pytest.mark.parametrize(("value", "end"), [(0, 1), (0.7, 1), (1, 1), (4, 5), (12, 20), (24, 30), (501, 1000)])
def test_a_scale_ends_with_a_round_number(value: float, end: float) -> None:
    assert ceiling(value) == pytest.approx(end)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (3.44, "3.4 s"),
        (59.97, "1 min 0 s"),
        (161, "2 min 41 s"),
        (11_520, "3 h 12 min"),
        (187_200, "2 d 4 h"),
        (-1, "0.0 s"),
    ],
)
def test_ages(seconds: float, text: str) -> None:
    assert age(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(19.9, "0:19"), (725, "12:05"), (3723, "1:02:03"), (-3, "0:00")])
def test_countdowns(seconds: float, text: str) -> None:
    assert countdown(seconds) == text


def test_times_of_another_day_carry_the_date() -> None:
    now = datetime(2026, 11, 30, 12, tzinfo=UTC)
    assert clock(datetime(2026, 11, 30, 3, 12, 41, tzinfo=UTC), now) == "03:12:41 UTC"
    assert clock(datetime(2026, 11, 28, 16, 20, tzinfo=UTC), now) == "2026-11-28 16:20 UTC"


def change(**given: Any) -> dict[str, Any]:
    return {
        "id": 1,
        "at": "2026-11-30T02:59:12.000000Z",
        "actor_kind": "person",
        "actor": "lin",
        "kind": "pool",
        "name": "gpu",
        "tenant": "",
        "action": "update",
        "before": None,
        "after": None,
        "reason": "",
    } | given


def test_a_change_says_from_what_to_what_and_a_mark_says_it_short() -> None:
    entry = entry_of(
        change(before={"capacity": 28, "state": "active"}, after={"capacity": 24, "state": "active"}, reason="repair")
    )
    assert entry.parts == [("capacity", "28", "24")]
    assert entry.mark()["text"] == "lin 28 → 24"
    assert entry.mark()["title"] == "lin: capacity 28 → 24 · repair"


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"action": "pause", "before": {"state": "active"}, "after": {"state": "paused"}}, "paused"),
        ({"action": "create", "after": {"name": "gpu", "capacity": 8, "state": "active"}}, "made, capacity → 8"),
        (
            {
                "kind": "share",
                "tenant": "search",
                "before": {"tenant": "search", "weight": None, "guarantee": 4},
                "after": {"tenant": "search", "weight": 2.5, "guarantee": 6},
            },
            "share of search: weight – → 2.5, guarantee 4 → 6",
        ),
        (
            {"action": "revoke", "before": {"lease_id": "x", "tenant": "eval", "permits": 4}},
            "lease of eval revoked: permits 4 →",
        ),
    ],
)
def test_every_kind_of_change_has_words(given: dict[str, Any], line: str) -> None:
    assert entry_of(change(**given)).line.strip() == line


def test_who_is_a_person_by_name_and_others_by_kind() -> None:
    assert entry_of(change(actor_kind="key", actor="abc")).who == "key abc"
    assert entry_of(change()).who == "lin"


def test_an_address_keeps_what_is_not_its_default_and_drops_what_is_unknown() -> None:
    request = RequestFactory().get("/pools/gpu/?tab=waiters&range=9y&view=table&q=%20eval%20")
    query = Query.of(request, "gpu")
    assert (query.tab, query.range, query.view, query.q) == ("waiters", "15m", "table", "eval")
    assert query.to(range="5m") == "/pools/gpu/?range=5m&view=table&tab=waiters&q=eval"
    assert query.to(view="charts", tab="holders", q="") == "/pools/gpu/"


def test_an_empty_field_of_a_share_is_its_default_and_a_wrong_one_is_left_to_the_checks() -> None:
    assert fields.share(QueryDict("weight=&limit=6&guarantee=&max_priority=")) == {"limit": 6}
    assert fields.share(QueryDict("weight=2.5&limit=many")) == {"weight": 2.5, "limit": "many"}


def test_snippets_name_this_relay_and_this_pool() -> None:
    for snippet in snippets("https://relay.example", "gpu")[1:]:
        assert "https://relay.example" in snippet.text
        assert "gpu/acquire" in snippet.text
