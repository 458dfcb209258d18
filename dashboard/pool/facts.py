"""What the pool page says in words: the strip of facts, and the line of cause."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard.format import duration, rate, whole
from dashboard.pool.look import Look
from dashboard.strip import Fact


@dataclass(frozen=True)
class Cause:
    """Why a pool needs somebody: the fact in bold, the rest, and whom a limit would help against, with the limit."""

    tone: str
    bold: str
    rest: str = ""
    tenant: str = ""
    limit: int = 0


def facts(look: Look) -> list[Fact]:
    """The six facts of the strip."""
    numbers, window = look.numbers, look.window
    wait, wait_unit = duration(window.average_wait_s)
    held, held_unit = duration(look.held_s)
    oldest = " ".join(duration(numbers["oldest_wait_s"]))
    guaranteed = sum(share.guarantee for share in look.shares)
    return [
        Fact("qps", _("Requests a second"), rate(window.qps), _("/s"), _("over the last 60 s")),
        Fact(
            "average",
            _("Average wait"),
            wait,
            wait_unit,
            _("of grants, over the last 60 s"),
            "is-act" if look.health == "starving" and window.average_wait_s else "",
        ),
        Fact(
            "in-use",
            _("Permits in use"),
            whole(numbers["in_use"]),
            f"/ {whole(look.gauges.capacity)}",
            _("%(count)s guaranteed") % {"count": whole(guaranteed)} if guaranteed else _("none guaranteed"),
        ),
        Fact(
            "waiting",
            _("Waiting"),
            whole(numbers["waiting"]),
            "",
            _("the oldest for %(time)s") % {"time": oldest} if numbers["waiting"] else _("nobody waits"),
        ),
        Fact(
            "timeouts",
            _("Timeouts"),
            whole(window.timeouts),
            _("/min"),
            _("in the last 60 s"),
            "is-act" if window.timeouts else "",
        ),
        Fact("held", _("Held for, on average"), held, held_unit, _("leases that ended since the start")),
    ]


def cause(look: Look) -> Cause | None:
    """What is wrong and who causes it; None where nobody has to look."""
    numbers, health = look.numbers, look.health
    if health == "paused":
        rest = _("Leases renew and release. %(waiting)s wait.") % {"waiting": whole(numbers["waiting"])}
        return Cause("is-off", _("Paused: nobody is granted a permit."), rest)
    if health == "draining":
        rest = _("%(held)s permits are still held.") % {"held": whole(numbers["in_use"])}
        return Cause("is-off", _("Draining: new requests are turned away."), rest)
    if health == "shrinking":
        bold = ngettext(
            "One permit over the new size.", "%(count)s permits over the new size.", numbers["over_limit"]
        ) % {"count": whole(numbers["over_limit"])}
        return Cause("is-watch", bold, _("Nobody is evicted: they go as leases end."))
    if health not in ("starving", "queuing"):
        return None
    return _shortage(look, "is-act" if health == "starving" else "is-watch")


def _shortage(look: Look, tone: str) -> Cause:
    timeouts = look.window.timeouts
    rest = (
        ngettext("One caller gave up in the last minute.", "%(count)s callers gave up in the last minute.", timeouts)
        % {"count": whole(timeouts)}
        if timeouts
        else ""
    )
    if look.numbers["waiting"]:
        oldest = " ".join(duration(look.numbers["oldest_wait_s"]))
        rest = f"{rest} {_('The oldest has waited %(time)s.') % {'time': oldest}}".strip()
    most = look.gauges.most
    if most is None or most.in_use <= most.due or not look.numbers["waiting"]:
        bold = _("%(used)s of %(capacity)s permits are in use, %(waiting)s wait.") % {
            "used": whole(look.numbers["in_use"]),
            "capacity": whole(look.gauges.capacity),
            "waiting": whole(look.numbers["waiting"]),
        }
        return Cause(tone, bold, rest)
    limit = max(1, most.due)
    bold = _("%(tenant)s holds %(used)s of %(capacity)s permits; its share is %(due)s.") % {
        "tenant": most.tenant,
        "used": whole(most.in_use),
        "capacity": whole(look.gauges.capacity),
        "due": whole(most.due),
    }
    return Cause(tone, bold, rest, most.tenant, limit)
