"""What the page says first: the verdict, and the strip of six facts. `static/dashboard/tokens-numbers.js` moves the live ones."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard.format import percent, rate, whole
from dashboard.strip import Fact
from dashboard.tokens.cost import Bill
from dashboard.tokens.figures import fine, long, money
from dashboard.tokens.numbers import Numbers, Shares
from dashboard.tokens.words import phrases
from dashboard.words import say
from relay.telemetry.token_meter import CORE_HOUR_USD


@dataclass(frozen=True)
class Verdict:
    """The page's one heading, and a line of facts. `tone`: a person must act, or watch. `live`: the script moves its words."""

    words: str
    lede: str
    title: str
    model: str = ""
    tone: str = ""
    live: bool = False


def verdict(found: Numbers) -> Verdict:
    """The state of counting in words: what fails first, then how it flows."""
    title = _("Tokens")
    failed = [line for line in found.models if line.view.state == "failed"]
    failed.sort(key=lambda line: line.view.loaded)
    if failed:
        first, more = failed[0].view, len(failed) - 1
        heading = _("could not be renewed") if first.loaded else _("cannot be counted")
        if more:
            heading += _(". ") + ngettext("One more failed", "%(more)s more failed", more) % {"more": more}
        tone = "is-watch" if all(line.view.loaded for line in failed) else "is-act"
        title = ngettext("%(count)s failed", "%(count)s failed", more + 1) % {"count": more + 1}
        return Verdict(heading, first.why or "", title, first.name, tone)
    if not found.models:
        return Verdict(_("No model yet"), _("A model is added once, then its tokens are counted exactly."), title)
    return Verdict(_flow(found), _lede(found), title, live=True)


def _flow(found: Numbers) -> str:
    if not found.requests_s:
        return say(phrases(), "rest")
    return say(phrases(), "flow", percent=f"{(found.reused or 0) * 100:.0f}")


def _lede(found: Numbers) -> str:
    ready = sum(line.view.loaded for line in found.models)
    loading = [line.view.name for line in found.models if line.view.state == "loading"]
    parts = [
        ngettext("One tokenizer loaded, every count exact.", "%(count)s tokenizers loaded, every count exact.", ready)
        % {"count": ready}
    ]
    if loading:
        parts.append(_("%(models)s: loading.") % {"models": ", ".join(loading)})
    return " ".join(parts)


def facts(found: Numbers, bill: Bill) -> list[Fact]:
    """The six facts of the strip: three live ones over the last 60 s, times and savings since the start, cost over the range."""
    words = phrases()
    a_request = (
        say(words, "a-request", count=whole(found.tokens_s / found.requests_s))
        if found.requests_s
        else say(words, "window")
    )
    reused = found.reused
    return [
        Fact("requests", _("Requests a second"), rate(found.requests_s), _("/s"), say(words, "window")),
        Fact("tokens", _("Tokens a second"), rate(found.tokens_s), _("/s"), a_request),
        Fact(
            "hits",
            _("From a cache"),
            percent(reused),
            "" if reused is None else "%",
            by_level(found.shares, "by-level"),
        ),
        _time(found),
        _saved(found),
        Fact("cost", _("Cost"), money(bill.cost), "", bill.note),
    ]


def by_level(shares: Shares, pattern: str) -> str:
    """How much each level answered, in words; `pattern` is by-level or tiers."""
    if shares["computed"] is None:
        return say(phrases(), "nothing")
    values = {level: f"{(share or 0) * 100:.0f}" for level, share in shares.items()}
    return say(phrases(), pattern, **values)


def _time(found: Numbers) -> Fact:
    value, unit = fine(found.timed("cache").slow_s)
    computed = " ".join(fine(found.timed("computed").slow_s)).strip()
    return Fact("time", _("Cached answer, p95"), value, unit, _("computed %(time)s") % {"time": computed})


def _saved(found: Numbers) -> Fact:
    value, unit = long(found.saved_s)
    note = _("about %(money)s, at %(price)s a core-hour")
    saved = {"money": money(found.saved_usd), "price": money(CORE_HOUR_USD)}
    return Fact("saved", _("Time saved"), value, unit, note % saved)
