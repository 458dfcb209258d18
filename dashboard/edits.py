"""Changes of pools from a table: each based on the version that the person saw, each answered with how to take it back.

A form's field is `size:POOL:VERSION:SEEN` or `state:POOL:VERSION:SEEN`, and its value is what is wanted: what equals SEEN
is no change. `size:POOL:VERSION:SEEN:PIN` undoes a resize of a pool that a policy sizes: PIN is its pin again, empty: none. A button `act` changes the picked pools (`pool`).
"""

from __future__ import annotations

import math
import uuid
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from django.http import QueryDict
from msgspec import UNSET, UnsetType

from dashboard.frame import who
from relay.http import Problem, invalid
from relay.permits import config
from relay.permits.models import Pool
from relay.tenants.changes import Actor, changes_of

Field = Literal["size", "state"]
STATES = {"pause": "paused", "resume": "active", "drain": "draining"}
_WHO_CHANGED_IT = timedelta(days=1)


@dataclass(frozen=True)
class Edit:
    """One wanted change. `version` None: whatever the pool's is now. `pin`: to leave this one instead of the size."""

    field: Field
    pool: str
    version: int | None
    seen: str
    wanted: str
    pin: int | UnsetType | None = UNSET


@dataclass(frozen=True)
class Done:
    """A change that was made; back to `was`, based on `version`, undoes it; `pin` stands behind that field's name."""

    field: Field
    pool: str
    version: int
    was: str
    now: str
    pin: str = ""


@dataclass(frozen=True)
class Conflict:
    """A change that was not made, for a colleague was first: who, when, and what holds now."""

    field: Field
    pool: str
    version: int
    now: str
    wanted: str
    actor: str
    at: str


@dataclass
class Outcome:
    """What became of the edits."""

    done: list[Done] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    problems: list[tuple[str, Problem]] = field(default_factory=list)

    @property
    def status(self) -> int:
        """200 if anything was done or nothing was to do, else what stood in the way."""
        if self.done or not (self.conflicts or self.problems):
            return 200
        return 412 if self.conflicts else self.problems[0][1].status

    def body(self) -> dict[str, Any]:
        """For the page's script."""
        first = self.problems[0][1].body() if self.problems else {}
        return first | {
            "done": [asdict(done) for done in self.done],
            "conflicts": [asdict(conflict) for conflict in self.conflicts],
            "problems": [{"pool": pool, "detail": problem.detail} for pool, problem in self.problems],
        }


def read_edits(form: QueryDict) -> list[Edit]:
    """What a form asks for. Raises 400 `invalid`."""
    fields = {name: edit for name in form if (edit := _edit_of(name, str(form[name]).strip()))}
    act = form.get("act")
    sizes = {edit.pool: edit for edit in fields.values() if edit.field == "size"}
    changed = [edit for edit in fields.values() if edit.wanted != edit.seen]
    picked = [str(name) for name in form.getlist("pool")]
    if act in STATES:
        return [Edit("state", name, None, "", STATES[act]) for name in picked]
    if act == "percent" or (picked and form.get("percent") and not changed):
        by = _percent(str(form.get("percent", "")))
        return [_scaled(sizes[name], by) for name in picked if name in sizes]
    return changed


def _edit_of(name: str, wanted: str) -> Edit | None:
    kind, _, rest = name.partition(":")
    parts = rest.split(":")
    if kind not in ("size", "state") or len(parts) not in (3, 4):
        return None
    version = int(parts[1]) if parts[1].isascii() and parts[1].isdigit() and len(parts[1]) < 18 else 0
    return Edit("size" if kind == "size" else "state", parts[0], version, parts[2], wanted, _pin_of(parts[3:]))


def _pin_of(parts: list[str]) -> int | UnsetType | None:
    if not parts:
        return UNSET
    return int(parts[0]) if parts[0].isascii() and parts[0].isdigit() and len(parts[0]) < 10 else None


def _percent(text: str) -> float:
    try:
        by = float(text.rstrip("% ").replace(",", ".").replace("−", "-"))
    except ValueError:
        by = math.nan
    if not -99 <= by <= 900:
        raise invalid("percent", "give a number from -99 to 900, such as 25 or -10")
    return by


def _scaled(edit: Edit, by: float) -> Edit:
    """Away from the present size, so that a small pool moves too."""
    exact = round(int(edit.seen) * (100 + by) / 100, 6)
    size = max(1, math.ceil(exact) if by > 0 else math.floor(exact))
    return Edit("size", edit.pool, edit.version, edit.seen, str(size))


def apply_edits(edits: list[Edit], username: str, reason: str = "") -> Outcome:
    """Makes the changes one by one, as this person; one that fails stops no other."""
    actor = Actor("person", username, uuid.uuid4().hex)
    outcome = Outcome()
    for edit in edits:
        try:
            done = _apply(edit, actor, reason)
        except Problem as problem:
            if problem.code == "version-conflict":
                outcome.conflicts.append(_conflict(edit))
            else:
                outcome.problems.append((edit.pool, problem))
        else:
            if done is not None:
                outcome.done.append(done)
    return outcome


def _apply(edit: Edit, actor: Actor, reason: str) -> Done | None:
    before = config.find_pool(edit.pool)
    was, version = _shown(before, edit.field), before.version
    if edit.field == "size":
        fields = {"capacity": whole_number(edit.wanted)}
        pool = config.update_pool(edit.pool, fields, edit.version, actor=actor, reason=reason, pin=edit.pin)
    else:
        if edit.wanted not in STATES.values():
            raise invalid("state", f"must be one of {', '.join(STATES.values())}")
        pool = config.set_pool_state(edit.pool, edit.wanted, edit.version, actor=actor, reason=reason)  # type: ignore[arg-type]
    if pool.version == version:
        return None
    pin = f":{before.sizing['pin'] or ''}" if edit.field == "size" and before.sizing is not None else ""
    return Done(edit.field, pool.name, pool.version, was, _shown(pool, edit.field), pin)


def _shown(pool: Pool, field: Field) -> str:
    return str(pool.capacity) if field == "size" else pool.state


def _conflict(edit: Edit) -> Conflict:
    pool = config.find_pool(edit.pool)
    newest = changes_of(edit.pool, datetime.now(UTC) - _WHO_CHANGED_IT, None, but="resize")[-1:]
    actor, at = (who(newest[0]), newest[0]["at"]) if newest else ("", "")
    return Conflict(edit.field, pool.name, pool.version, _shown(pool, edit.field), edit.wanted, actor, at)


def whole_number(text: str) -> int | str:
    """A whole number, or the text as it is: the configuration's own check says what is wrong with it."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text
