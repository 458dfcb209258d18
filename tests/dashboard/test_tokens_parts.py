"""What the page of tokens is made of: cells, figures, the bill of a range, percentiles."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dashboard.tokens import figures
from dashboard.tokens.cells import Token, cells, runs
from dashboard.tokens.cost import as_csv, bill
from dashboard.tokens.numbers import quantile
from relay.telemetry.histogram import TOKENIZE_BOUNDS_S, Histogram
from relay.telemetry.token_meter import Used
from relay.tokens import usage
from relay.tokens.models import TokenModel
from tests.dashboard.test_roles import FETCH, client_of

NOW = datetime(2026, 3, 4, 17, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" a b", [("·", True), ("a", False), ("·", True), ("b", False)]),
        ("\n\t\r", [("↵→␍", True)]),
        ("a\u00a0\u200b", [("a", False), ("U+00A0U+200B", True)]),
        ("👩\u200d💻", [("👩\u200d💻", False)]),
        ("\u200d", [("U+200D", True)]),
        ("❤\ufe0f", [("❤\ufe0f", False)]),
        ("\u0301", [("◌\u0301", False)]),
        ("<b>&", [("<b>&", False)]),
    ],
)
def test_what_cannot_be_seen_is_shown_as_a_sign(text: str, shown: list[tuple[str, bool]]) -> None:
    assert runs(text) == shown


def test_cells_name_pieces_of_a_character_gaps_and_special_tokens() -> None:
    tokens = [
        Token(2, 0, 0, "computed", "[CLS]"),
        Token(7, 0, 2, "text"),
        Token(8, 3, 4, "segment"),
        Token(9, 3, 4, "shared"),
        Token(3, 4, 4, "computed", "[SEP]"),
    ]
    first, hi, half, other, last = cells("hi 世", tokens)
    assert (first.runs, first.special, last.special) == ([("[CLS]", False)], True, True)
    assert (hi.part, hi.gap, hi.special) == ("", "", False)
    assert (half.part, half.gap, other.part, other.gap) == ("1/2", "·", "2/2", "")
    assert hi.title == "token 2: id 7, characters 0 to 2, from the cache, as part of the whole text"
    assert first.title == "token 1: id 2, special, covers no character, computed now"


@pytest.mark.parametrize(
    ("dollars", "written"),
    [
        (None, "–"),
        (0.0, "$0"),
        (1e-12, "$0"),
        (0.000041, "$0.000041"),
        (0.0001, "$0.0001"),
        (0.0099, "$0.0099"),
        (0.35, "$0.35"),
        (41.2, "$41.20"),
        (1204.4, "$1,204"),
    ],
)
def test_money_is_written_down_to_what_one_text_costs(dollars: float | None, written: str) -> None:
    assert figures.money(dollars) == written


def test_times_are_written_down_to_microseconds() -> None:
    written = [" ".join(figures.fine(seconds)) for seconds in (0.0000312, 0.000344, 0.0019, 0.12, 2.44)]
    assert written == ["31 µs", "0.34 ms", "1.9 ms", "120 ms", "2.4 s"]
    assert [" ".join(figures.long(seconds)) for seconds in (0.34, 41, 750, 11_160)] == [
        "340 ms",
        "41.0 s",
        "12.5 min",
        "3.1 h",
    ]


def test_a_percentile_lies_within_its_bucket_and_ends_with_the_last_bound() -> None:
    histogram = Histogram(TOKENIZE_BOUNDS_S)
    assert quantile([histogram], 0.95) is None
    for _ in range(100):
        histogram.observe(70.0)  # in the bucket from 50 to 100 µs
    found = quantile([histogram, Histogram(TOKENIZE_BOUNDS_S)], 0.95)
    assert found == pytest.approx(0.0000975)
    for _ in range(900):
        histogram.observe(60_000_000.0)
    assert quantile([histogram], 0.95) == TOKENIZE_BOUNDS_S[-1]


def used(tenant: str, model: str, tokens: int) -> Used:
    return Used(model, tenant, 1, tokens, tokens // 2, 0.1, 0.05)


@pytest.mark.django_db
def test_the_bill_of_a_range_sums_by_tenant_and_model_and_along_the_time() -> None:
    prices = {"gpt-4o": 2.5}
    usage.add(NOW.replace(minute=0), [used("search", "gpt-4o", 1_000_000), used("docs", "gpt2", 500)], prices.get)
    usage.add(NOW.replace(minute=0) - timedelta(hours=5), [used("docs", "gpt-4o", 3_000_000)], prices.get)
    usage.add(NOW.replace(minute=0) - timedelta(hours=24), [used("docs", "gpt-4o", 9)], prices.get)  # the day before
    day = bill("24h", NOW)
    assert [(line.total.tenant, line.total.model, line.cost, line.percent) for line in day.lines] == [
        ("docs", "gpt-4o", "$7.50", "75"),
        ("search", "gpt-4o", "$2.50", "25"),
        ("docs", "gpt2", "–", "0"),
    ]
    assert (day.tokens, day.cost, day.unpriced, day.note, day.top) == (4_000_500, 10.0, 500, "docs 75 %", "3M")
    assert [bar.tokens for bar in day.bars] == [0] * 18 + [3_000_000] + [0] * 4 + [1_000_500]
    assert day.bars[-1].at == "03-04 17:00"
    week = bill("7d", NOW)
    assert [bar.tokens for bar in week.bars if bar.tokens] == [9, 4_000_500]  # steps of six hours
    assert len(bill("30d", NOW).bars) == 30
    assert as_csv("24h", NOW).splitlines()[1] == "docs,gpt-4o,1,3000000,1500000,0.1,0.05,7.5"


@pytest.mark.django_db
@pytest.mark.parametrize(("role", "status"), [("viewer", 403), ("operator", 403), ("admin", 204)])
def test_only_an_admin_adds_a_model(role: str, status: int) -> None:
    client = client_of(role)
    form = {"name": "mine", "source": "path", "location": "/models/mine", "context_size": "8192"}
    assert client.post("/tokens/models/", form, headers=FETCH).status_code == status
    made = TokenModel.objects.filter(name="mine", location="/models/mine", context_size=8192)
    assert made.exists() == (role == "admin")
    if role == "admin":
        again = client.post("/tokens/models/", form)
        assert again.headers["Location"] == "/tokens/"


@pytest.mark.django_db
def test_without_a_running_service_the_page_says_so_and_counts_nothing() -> None:
    client = client_of("viewer")
    page = client.get("/tokens/")
    assert page.status_code == 503
    assert b"No live numbers" in page.content
    answer = client.post("/tokens/play/", {"model": "gpt2", "text": "hello"}, headers=FETCH)
    assert answer.status_code == 503
    assert b"No tokenizer is served by this process" in answer.content


@pytest.mark.django_db
def test_a_range_without_use_or_without_prices_says_so() -> None:
    empty = bill("24h", NOW)
    assert (empty.lines, empty.tokens, empty.cost, empty.note) == ([], 0, None, "nothing counted yet")
    usage.add(NOW.replace(minute=0), [used("search", "gpt2", 300), used("docs", "gpt2", 100)], {}.get)
    plain = bill("24h", NOW)
    assert [(line.total.tenant, line.cost, line.percent) for line in plain.lines] == [
        ("search", "–", "75"),
        ("docs", "–", "25"),
    ]
    assert (plain.cost, plain.by_cost, plain.note) == (None, False, "no price known for 400 tokens")
