"""What is due when, compared with a plain dict."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from relay.permits.engine.timeline import NEVER, Timeline

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 400_000)),
        st.tuples(st.just("remove"), st.integers(0, 50)),
        st.tuples(st.just("pop"), st.integers(0, 200_000)),
    ),
    max_size=120,
)


@given(STEPS)
def test_everything_comes_due_once_in_order_unless_removed(steps: list[tuple[str, int]]) -> None:
    timeline: Timeline[str] = Timeline()
    here: dict[str, int] = {}
    now = 0
    for number, (what, value) in enumerate(steps):
        if what == "add":
            here[f"k{number}"] = now + value
            timeline.add(now + value, f"k{number}", f"k{number}")
        elif what == "remove" and here:
            key = sorted(here)[value % len(here)]
            timeline.remove(here.pop(key), key)
        elif what == "pop":
            now += value
            due = timeline.pop_due(now)
            assert sorted(due) == sorted(key for key, at in here.items() if at <= now)
            assert [here[key] for key in due] == sorted(here[key] for key in due)
            for key in due:
                del here[key]
        assert timeline.soonest <= min(here.values(), default=NEVER)


def test_an_item_can_move_within_the_bucket_that_time_has_reached() -> None:
    timeline: Timeline[str] = Timeline()
    timeline.pop_due(10)
    timeline.add(100, "a", "first")
    timeline.remove(100, "a")
    timeline.add(50, "a", "second")
    assert timeline.pop_due(60) == ["second"]
    assert timeline.pop_due(200) == []
    assert timeline.soonest == NEVER


def test_buckets_that_became_empty_do_not_pile_up() -> None:
    timeline: Timeline[int] = Timeline()
    for number in range(20_000):
        due = number * 70_000
        timeline.add(due, "k", number)
        timeline.remove(due, "k")
    assert len(timeline._far) < 3_000
    timeline.add(5, "last", 1)
    assert timeline.pop_due(5) == [1]
