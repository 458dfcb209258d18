"""How a pool is sized, in words: rules, their fields, what of them a change changed, and reasons in the reader's language."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from django.utils.translation import gettext as _

from dashboard.pool.week import lines_of

Words = Callable[[], str]


def rule_words() -> dict[str, str]:
    """The ways to size a pool, as a choice."""
    return {"fixed": _("Fixed"), "load": _("By load"), "schedule": _("By schedule"), "adaptive": _("Adaptive")}


def field_words() -> dict[str, str]:
    """The fields of a sizing and of its rule."""
    return {
        "rule": _("sized"),
        "minimum": _("Minimum"),
        "maximum": _("Maximum"),
        "cooldown_s": _("Seconds between two decisions"),
        "pin": _("Pinned at"),
        "dry_run": _("Dry run"),
        "grow_above": _("Grow above this load"),
        "shrink_below": _("Shrink below this load"),
        "window_s": _("Window in seconds"),
        "max_wait_s": _("Grow when somebody waits longer than, s"),
        "step": _("Step, as a part of the size"),
        "timezone": _("Time zone"),
        "entries": _("Sizes of the week"),
        "ramp_s": _("Ramp in seconds"),
        "algorithm": _("Algorithm"),
        "decrease": _("On trouble, times"),
        "increase": _("When all is well, plus"),
        "retry_s": _("Seconds before the size that failed is tried again"),
        "min_samples": _("Calls that count as enough"),
        "tolerance": _("Share of failures that is no trouble"),
    }


def sizing_parts(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[tuple[str, str, str]]:
    """(what, before, after) of each field that a change of the sizing changed. Of a new rule: its bounds only."""
    was, now = _flat(before), _flat(after)
    names = list(dict.fromkeys((*was, *now)))
    if was["rule"] != now["rule"]:
        names = [name for name in ("rule", "minimum", "maximum", "pin", "dry_run") if name in names]
    labels = field_words()
    return [
        (labels.get(name, name), _shown(was, name), _shown(now, name))
        for name in names
        if was.get(name) != now.get(name) and not (name not in was and now[name] in (None, False))
    ]


def _flat(sizing: Mapping[str, Any] | None) -> dict[str, Any]:
    if sizing is None:
        return {"rule": "fixed"}
    policy = dict(sizing["policy"])
    rest = {name: value for name, value in sizing.items() if name != "policy"}
    return {"rule": policy.pop("kind")} | rest | policy


def _shown(fields: Mapping[str, Any], name: str) -> str:
    if name not in fields:
        return ""
    value = fields[name]
    if name == "rule":
        return rule_words().get(str(value), str(value))
    if name == "entries":
        return "; ".join(lines_of(value))
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if value is None:
        return "–"
    return f"{value:g}" if isinstance(value, float) else str(value)


_SCHEDULE = r"schedule: (?P<size>\d+) from (?P<day>\w{3}) (?P<at>[\d:]+) \((?P<zone>[^)]+)\)"

# What the policies write (relay/permits/sizing), and how it is said here; a test holds them together.
_PATTERNS: tuple[tuple[str, Words], ...] = (
    (
        r"load (?P<load>[\d.]+) over (?P<bound>[\d.]+) for (?P<time>[\d.e+]+) s",
        lambda: _("load %(load)s over %(bound)s for %(time)s s"),
    ),
    (
        r"load (?P<load>[\d.]+) under (?P<bound>[\d.]+) for (?P<time>[\d.e+]+) s",
        lambda: _("load %(load)s under %(bound)s for %(time)s s"),
    ),
    (
        r"oldest waiter (?P<time>[\d.]+) s, over (?P<bound>[\d.e+]+) s",
        lambda: _("the oldest waiter has waited %(time)s s, over %(bound)s s"),
    ),
    (
        _SCHEDULE,
        lambda: _("schedule: %(size)s from %(day)s %(at)s (%(zone)s)"),
    ),
    (
        _SCHEDULE + r", (?P<share>\d+)% of the ramp from (?P<former>\d+)",
        lambda: _("schedule: %(size)s from %(day)s %(at)s (%(zone)s), %(share)s %% of the ramp from %(former)s"),
    ),
    (
        r"(?P<calls>\d+) calls went well at the limit for (?P<time>\d+) s",
        lambda: _("%(calls)s calls went well at the limit for %(time)s s"),
    ),
    (
        r"(?P<wrong>\d+) of the last (?P<calls>\d+) calls went wrong, the newest (?P<word>throttled|timed out|failed)",
        lambda: _("%(wrong)s of the last %(calls)s calls went wrong, the newest %(word)s"),
    ),
    (
        r"latency (?P<short>[\d.]+) s beside (?P<long>[\d.]+) s in the long run, gradient (?P<gradient>[\d.]+)",
        lambda: _("latency %(short)s s beside %(long)s s in the long run, gradient %(gradient)s"),
    ),
    (
        r"about (?P<queue>\d+) calls queue behind it \(least latency (?P<least>[\d.]+) s, now (?P<now>[\d.]+) s\)",
        lambda: _("about %(queue)s calls queue behind it (least latency %(least)s s, now %(now)s s)"),
    ),
    (r"below the minimum of (?P<bound>\d+)", lambda: _("below the minimum of %(bound)s")),
    (r"above the maximum of (?P<bound>\d+)", lambda: _("above the maximum of %(bound)s")),
    (r"pinned by hand", lambda: _("pinned by hand")),
)
_READ = tuple((re.compile(pattern), words) for pattern, words in _PATTERNS)
_SIZES = re.compile(r": \d+ to \d+\Z")


def reason_in_words(reason: str) -> str:
    """A decision's reason in the reader's language, without the sizes; one of a kind unknown here as it is."""
    reason = _SIZES.sub("", reason)
    for pattern, words in _READ:
        found = pattern.fullmatch(reason)
        if found:
            inner = _inner_words()
            return words() % {name: inner.get(value, value) for name, value in found.groupdict().items()}
    return reason


def _inner_words() -> dict[str, str]:
    return {"throttled": _("throttled"), "timed out": _("timed out"), "failed": _("failed")} | day_words()


def day_words() -> dict[str, str]:
    """The days as reasons name them."""
    return {
        "Mon": _("Mon"),
        "Tue": _("Tue"),
        "Wed": _("Wed"),
        "Thu": _("Thu"),
        "Fri": _("Fri"),
        "Sat": _("Sat"),
        "Sun": _("Sun"),
    }
