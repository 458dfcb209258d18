"""The model and the core side by side: each operation goes to both, and every answer and effect must be the same."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from relay.permits.engine.base import Ask, Lease, LeaseEnded, PoolConfig, Refused, Share
from relay.permits.engine.core import PoolCore
from tests.permits.driver import EVENT_FIELDS, build
from tests.permits.model import ReferencePool

Pair = tuple[str, str]
Op = tuple[Any, ...]


class Twins:
    """A model and a core of one pool. `ops` is the trace so far, to replay a mismatch by hand."""

    def __init__(self, config: PoolConfig, weights: Mapping[str, float]) -> None:
        self.config = config
        self.model = build(ReferencePool, config, weights=weights)
        self.core = build(PoolCore, config, weights=weights)
        self.now = 0
        self.told_us = 0  # the last `now` that the pools heard of
        self.ops: list[Op] = []
        self.leases: list[tuple[Pair, str]] = []  # ids in both, tenant; also of leases that have ended
        self.waiters: list[Pair] = []
        self.ended: set[int] = set()
        self.fencing = 0
        self._number = 0

    # Operations: times in µs

    def acquire(
        self, tenant: str, permits: int, priority: str, timeout_us: int, ttl_us: int, key: str | None = None
    ) -> None:
        """Asks both. Without a key every ask has a holder of its own; a key's body is the same if its fields are."""
        self._number += 1
        holder = f"{tenant}-{key}" if key else f"{tenant}#{self._number}"
        ask = Ask(tenant, permits, priority, timeout_us, ttl_us, holder=holder, key=key)
        before = self._state(self.core) if self.told_us == self.now else None  # else time alone may change ranks
        answers = self._both("acquire", ask, self.now)
        if isinstance(answers[0], Refused) and before is not None:
            assert self._state(self.core) == before, "a refusal changed something"

    def renew(self, index: int, ttl_us: int | None, stranger: bool = False) -> None:
        """Renews one of the leases that ever were."""
        if self.leases:
            ids, tenant = self.leases[index % len(self.leases)]
            self._both_by_id("renew", ids, "nobody" if stranger else tenant, ttl_us, self.now)

    def release(self, index: int, stranger: bool = False) -> None:
        """Releases one of the leases that ever were."""
        if self.leases:
            ids, tenant = self.leases[index % len(self.leases)]
            self._both_by_id("release", ids, "nobody" if stranger else tenant, self.now)

    def on_lease(self, operation: str, index: int) -> None:
        """`revoke`, `delivered` or `undelivered`."""
        if operation == "delivered":  # a note, no operation: it need not bring the pool to its now
            self.step(0)
        if self.leases:
            self._both_by_id(operation, self.leases[index % len(self.leases)][0], self.now)

    def on_waiter(self, operation: str, index: int) -> None:
        """`disconnect` or `cancel`."""
        if self.waiters:
            self._both_by_id(operation, self.waiters[index % len(self.waiters)], self.now)

    def change(
        self, ranks: Mapping[str, int] | None = None, weights: Mapping[str, float] | None = None, **fields: Any
    ) -> None:
        """Changes the configuration of both."""
        self.config = msgspec.structs.replace(self.config, **fields)
        self._both("configure", self.config, self.now, ranks, weights)

    def share(self, tenant: str, share: Share) -> None:
        """Changes one tenant's share."""
        self.change(shares={**self.config.shares, tenant: share})

    def step(self, delta_us: int) -> None:
        """Time goes on, and both are told."""
        self.now += delta_us
        self._both("advance", self.now)

    def drift_on(self, delta_us: int) -> None:
        """Time goes on; only the next operation tells."""
        self.now += delta_us

    def step_to_due(self, offset_us: int, *, ranks: bool) -> None:
        """Goes to just before, at or after the next thing that is due."""
        due = self.model.rank_due() if ranks else self.model.hard_due()
        if due is not None and due + offset_us >= self.now:
            self.step(due + offset_us - self.now)

    def first_grant_us(self, until_us: int) -> int | None:
        """When the next waiter would be granted if nobody called: a copy of the model, woken at the very moment."""
        trial = copy.deepcopy(self.model)
        while (due := trial.next_due()) is not None and due < until_us:
            trial.advance(due)
            if any(type(event).__name__ == "Granted" for event in trial.take_events()):
                return int(due)
        return None

    # Comparison

    def _both(self, operation: str, *arguments: Any) -> tuple[Any, Any]:
        return self._compare(operation, arguments, lambda pool, _: getattr(pool, operation)(*arguments))

    def _both_by_id(self, operation: str, ids: Pair, *arguments: Any) -> tuple[Any, Any]:
        return self._compare(
            operation, (ids, *arguments), lambda pool, side: getattr(pool, operation)(ids[side], *arguments)
        )

    def _compare(self, operation: str, arguments: Op, call: Callable[[Any, int], Any]) -> tuple[Any, Any]:
        self.ops.append((operation, *arguments))
        self.told_us = self.now
        answers = tuple(_outcome(call, pool, side) for side, pool in enumerate((self.model, self.core)))
        assert _shown(answers[1]) == _shown(answers[0]), self._story("answers")
        granted = self._take_events()
        if isinstance(answers[1], Lease) and operation == "acquire":
            granted.append(answers)
        self._note_leases(granted)
        self._note_waiter(answers)
        assert self._state(self.core) == self._state(self.model), self._story("states")
        self._check_invariants()
        return answers

    def _take_events(self) -> list[tuple[Lease, Lease]]:
        """Compares the events; the leases that they granted, model's and core's."""
        model, core = self.model.take_events(), self.core.take_events()
        assert _in_runs(core) == _in_runs(model), self._story("events")
        for event in core:
            if hasattr(event, "reason"):
                assert event.lease.fencing_token not in self.ended, "a lease ended twice"
                self.ended.add(event.lease.fencing_token)
        pairs = zip(model, core, strict=True)
        return [(mine.lease, theirs.lease) for mine, theirs in pairs if type(theirs).__name__ == "Granted"]

    def _note_leases(self, granted: list[tuple[Lease, Lease]]) -> None:
        """Granted by one operation; its own caller's lease may stand anywhere among the others'."""
        for mine, theirs in sorted(granted, key=lambda pair: pair[1].fencing_token):
            assert theirs.fencing_token > self.fencing, "fencing tokens must rise"
            self.fencing = theirs.fencing_token
            self.leases.append(((mine.lease_id, theirs.lease_id), theirs.ask.tenant))
        if granted and self.ops[-1][0] != "configure":
            assert self.core.in_use <= self.config.capacity, "granted above the capacity"

    def _note_waiter(self, answers: tuple[Any, Any]) -> None:
        if hasattr(answers[1], "waiter_id"):
            pair = (answers[0].waiter_id, answers[1].waiter_id)
            if pair not in self.waiters:
                self.waiters.append(pair)

    def _check_invariants(self) -> None:
        core = self.core
        held = sum(lease.ask.permits for lease in core.leases.values())
        assert core.in_use == held
        assert core.drift() == 0
        for lease in core.leases.values():
            assert lease.fencing_token not in self.ended
        hard = self.model.hard_due()
        assert hard is None or core.next_due() <= hard, self._story("next_due is late")

    def _state(self, pool: Any) -> Any:
        leases = sorted((_shown(lease) for lease in pool.leases.values()), key=lambda row: int(row[1]))
        tenants = {lease.ask.tenant for lease in pool.leases.values()}
        return (
            pool.in_use,
            pool.waiting,
            leases,
            [(*_shown(waiter), place) for waiter, place in pool.queue(500)],
            {tenant: pool.tenant_in_use(tenant) for tenant in tenants},
        )

    def _story(self, what: str) -> str:
        lines = "\n".join(f"  {op}" for op in self.ops[-40:])
        return f"{what} differ at {self.now} µs; core first, then model; the last operations:\n{lines}\n{self.config}"


def _outcome(call: Callable[[Any, int], Any], pool: Any, side: int) -> Any:
    try:
        answer = call(pool, side)
    except Refused as refused:
        return refused
    return copy.copy(answer) if isinstance(answer, Lease) else answer


def _shown(answer: Any) -> Any:
    """An answer without the ids and hints, which differ between two implementations."""
    if isinstance(answer, LeaseEnded):
        return ("ended", answer.reason)
    if isinstance(answer, Refused):
        return ("refused", answer.code, answer.retry_after_us is not None and answer.retry_after_us > 0)
    if isinstance(answer, Lease):
        times = (answer.waited_us, answer.acquired_us, answer.expires_us, answer.ttl_us)
        return ("lease", answer.fencing_token, answer.ask.holder, answer.ask.permits, *times)
    if hasattr(answer, "waiter_id"):
        return ("waiter", answer.ask.holder, answer.enqueued_us, answer.deadline_us, answer.connected)
    if hasattr(answer, "lease"):
        return ("existing", *_shown(answer.lease))
    return answer


def _in_runs(events: list[Any]) -> list[Any]:
    """Events in order; among leases (or waiters) that end in one go, the order is free."""
    rows = [
        (type(event).__name__, *(_event_part(getattr(event, name)) for name in EVENT_FIELDS[type(event).__name__]))
        for event in events
    ]
    done: list[Any] = []
    for row in rows:
        if row[0] != "Granted" and done and done[-1][0][0] == row[0]:
            done[-1] = sorted([*done[-1], row], key=repr)
        else:
            done.append([row])
    return done


def _event_part(part: Any) -> Any:
    if isinstance(part, Lease):
        return _shown(part)
    return part if isinstance(part, str) else part.ask.holder
