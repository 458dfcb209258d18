"""What the overview says, as patterns in the reader's language. The server fills them in first, the page's script then.

A pattern is a text, or a pair for one and for more; `%(name)s` is filled in, `%%` is a percent sign.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, override

Pattern = str | list[str]
Phrases = dict[str, Pattern]


def _pair(form: Callable[[int], str]) -> list[str]:
    return [form(1), form(2)]


def phrases() -> Phrases:
    """Everything that the live part of the overview can say."""
    return _verdict() | _lede() | _notes() | _causes() | _acts()


@cache
def digest(language: str) -> str:
    """Eight letters that change with the words of a language."""
    with override(language):
        return hashlib.sha256(repr(phrases()).encode()).hexdigest()[:8]


def say(phrases: Phrases, key: str, number: int | None = None, /, **values: Any) -> str:
    """A phrase, filled in. `number` chooses of a pair."""
    pattern = phrases[key]
    text = pattern if isinstance(pattern, str) else pattern[0 if number == 1 else 1]
    return text % values if "%" in text else text


def _verdict() -> Phrases:
    return {
        "starving": _("is starving"),
        "shrinking": _("is shrinking"),
        "queuing": _("has a queue"),
        "join": _(". "),
        "more": _pair(lambda n: ngettext("One more needs watching", "%(more)s more need watching", n)),
        "rest": _("Nothing is asked for"),
        "flows": _("Everything flows"),
        "off": _pair(lambda n: ngettext("One pool is out of service", "%(off)s pools are out of service", n)),
        "title": _("Overview"),
        "title-act": _pair(lambda n: ngettext("%(count)s starving", "%(count)s starving", n)),
        "title-watch": _("%(count)s to watch"),
    }


def _lede() -> Phrases:
    return {
        "gave-up": _pair(
            lambda n: ngettext(
                "One caller gave up in the last minute.", "%(count)s callers gave up in the last minute.", n
            )
        ),
        "oldest": _("The oldest has waited %(time)s."),
        "nobody": _("Nobody waits."),
    }


def _notes() -> Phrases:
    return {
        "window": _("over the last 60 s"),
        "above": _("in 60 s; %(percent)s %% above 5 min ago"),
        "below": _("in 60 s; %(percent)s %% below 5 min ago"),
        "same": _("in 60 s; as 5 min ago"),
        "before": _("in 60 s; %(time)s 5 min ago"),
        "none-full": _("%(percent)s %%, no pool full"),
        "full": _pair(lambda n: ngettext("%(percent)s %%, one pool full", "%(percent)s %%, %(full)s pools full", n)),
        "nobody-waits": _("nobody waits"),
        "of-them": _("%(count)s of them in %(pool)s"),
        "no-timeouts": _("in the last 60 s"),
        "timeouts": _("in 60 s; %(count)s in %(pool)s"),
        "tokens": _("%(rate)s tokens/s"),
    }


def _causes() -> Phrases:
    return {
        "over-share": _("holds %(count)s of %(capacity)s, its share is %(due)s"),
        "holds": _("holds %(count)s of %(capacity)s"),
        "over": _("%(count)s over its new size, none evicted"),
        "paused": _("No new grants; leases renew and release"),
        "left": _pair(lambda n: ngettext("One permit still held", "%(count)s permits still held", n)),
    }


def _acts() -> Phrases:
    return {
        "unit-waiting": _("waiting"),
        "unit-timeouts": _("gave up in a minute"),
        "less": _("One permit less for %(pool)s"),
        "more-permits": _("One permit more for %(pool)s"),
        "capacity": _("Capacity of %(pool)s"),
        "many-resized": _pair(lambda n: ngettext("One pool resized", "%(count)s pools resized", n)),
        "many-paused": _pair(lambda n: ngettext("One pool paused", "%(count)s pools paused", n)),
        "many-resumed": _pair(lambda n: ngettext("One pool resumed", "%(count)s pools resumed", n)),
        "conflict-size": _("made it %(now)s while you typed %(wanted)s."),
        "conflict-state": _("changed it meanwhile."),
        "set-anyway": _("Set it to %(wanted)s"),
        "keep": _("Keep %(now)s"),
        "nothing": _("Nothing changed"),
        "no-match": _pair(
            lambda n: ngettext(
                "The one pool does not match “%(query)s”.", "None of the %(count)s pools matches “%(query)s”.", n
            )
        ),
        "no-state": _("No pool is in this state now."),
    }
