"""The Sizing tab's form: which fields a rule has, what they hold, and a form as a sizing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from django.utils.translation import gettext as _

from dashboard.pool import fields
from dashboard.pool.sizing_words import field_words
from dashboard.pool.week import entries_of, lines_of
from relay.http import invalid
from relay.permits.sizing.adaptive import Adaptive
from relay.permits.sizing.load import ByLoad
from relay.permits.sizing.rows import sizing_fields
from relay.permits.sizing.sizer import Sizing
from relay.tenants.fields import checked

RULES = ("fixed", "load", "schedule", "adaptive")
COMMON = ("minimum", "maximum", "cooldown_s", "pin")
OF_RULE = {
    "load": ("grow_above", "shrink_below", "window_s", "max_wait_s", "step"),
    "schedule": ("timezone", "ramp_s", "entries"),
    "adaptive": ("algorithm", "decrease", "increase", "window_s", "retry_s", "min_samples", "tolerance"),
}
NAMES = tuple(dict.fromkeys((*COMMON, *(name for names in OF_RULE.values() for name in names))))
ALGORITHMS = {"aimd": "AIMD", "gradient": "Gradient2", "vegas": "Vegas"}
MAY_BE_EMPTY = {"cooldown_s", "pin", "max_wait_s"}
_WHOLE = {"minimum", "maximum", "pin", "increase", "min_samples"}
_TEXT_LIMIT = 4000


@dataclass(frozen=True)
class Field:
    """A field of the form. `kind` is number, zone, week or choice; `hint` says what empty means, or how to write it."""

    name: str
    label: str
    value: str
    kind: str
    hint: str = ""
    required: bool = True


def typed(form: Mapping[str, str]) -> dict[str, str]:
    """What of a form or an address belongs to a sizing."""
    return {name: form[name][:_TEXT_LIMIT] for name in NAMES if name in form}


def sizing_from(rule: str, form: Mapping[str, str], *, dry_run: bool = False) -> Sizing:
    """A form as a sizing; an empty field is none, or the usual. Raises 400 `invalid` that names the field."""
    policy = {"kind": rule} | {name: _value(name, form[name]) for name in OF_RULE[rule] if _given(name, form)}
    common = {name: _value(name, form[name]) for name in COMMON if _given(name, form)}
    sizing = checked(common | {"policy": policy, "dry_run": dry_run}, Sizing)
    fault = sizing.fault()
    if fault is not None:
        raise invalid(*fault)
    return sizing


def _given(name: str, form: Mapping[str, str]) -> bool:
    return name in form and (form[name].strip() != "" or name in MAY_BE_EMPTY)


def _value(name: str, text: str) -> Any:
    text = text.strip()
    if name == "entries":
        return entries_of(text)
    if name in MAY_BE_EMPTY and not text:
        return None
    if name in _WHOLE:
        return fields.whole(text)
    return text if name in ("timezone", "algorithm") else fields.decimal(text)


def values_of(rule: str, sizing: Sizing | None, capacity: int) -> dict[str, str]:
    """What the form holds at first: the sizing in force if it has this rule, else usual values around the present size."""
    if sizing is not None and (sizing_fields(sizing) or {})["policy"]["kind"] == rule:
        found = sizing_fields(sizing) or {}
    else:
        bounds = {"minimum": max(1, capacity // 2), "maximum": min(1_000_000, capacity * 2)}
        found = {"policy": _usual(rule, capacity), "cooldown_s": None, "pin": None} | bounds
    merged = {**found, **found["policy"]}
    return {
        name: "\n".join(lines_of(merged[name])) if name == "entries" else fields.text(merged[name])
        for name in (*COMMON, *OF_RULE[rule])
    }


def _usual(rule: str, capacity: int) -> dict[str, Any]:
    if rule == "schedule":
        work = {"days": ["mon", "tue", "wed", "thu", "fri"], "at": "08:00", "capacity": capacity}
        night = {"days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"], "at": "20:00"}
        return {"timezone": "UTC", "ramp_s": 0.0, "entries": [work, night | {"capacity": max(1, capacity // 2)}]}
    usual: dict[str, Any] = msgspec.to_builtins(ByLoad() if rule == "load" else Adaptive())
    return usual


def form_fields(rule: str, values: Mapping[str, str]) -> list[Field]:
    """The form of a rule."""
    labels, hints = field_words(), _hints(rule)
    return [
        Field(name, labels[name], values.get(name, ""), _kind(name), hints.get(name, ""), name not in MAY_BE_EMPTY)
        for name in (*COMMON, *OF_RULE[rule])
    ]


def _kind(name: str) -> str:
    return {"entries": "week", "timezone": "zone", "algorithm": "choice"}.get(name, "number")


def _hints(rule: str) -> dict[str, str]:
    usual = {"load": "30", "schedule": "1", "adaptive": "0.25"}[rule]
    return {
        "cooldown_s": _("empty: %(usual)s") % {"usual": usual},
        "pin": _("empty: the rule decides"),
        "max_wait_s": _("empty: waiting does not count"),
        "timezone": _("such as Europe/Berlin"),
        "entries": _("one a line: days, time, size"),
    }
