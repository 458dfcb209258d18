"""The live leases of one pool: the one truth about what is in use (rules 1, 2, 15 to 18). No I/O, no clock."""

from __future__ import annotations

from relay.permits.engine.base import End, EndReason, Lease, LeaseEnded, Refused
from relay.permits.engine.ended import EndedLeases
from relay.permits.engine.timeline import Timeline


class Holdings:
    """Leases by id, with the permits in use kept as a number beside them, and when each is due to end."""

    __slots__ = ("_ended", "_pool", "dues", "in_use", "leases")

    def __init__(self, pool: str, ended: EndedLeases) -> None:
        self._pool = pool
        self._ended = ended
        self.in_use = 0
        self.leases: dict[str, Lease] = {}
        self.dues: Timeline[Lease] = Timeline()

    def add(self, lease: Lease) -> None:
        """A lease begins to live."""
        self.leases[lease.lease_id] = lease
        self.dues.add(lease.expires_us, lease.lease_id, lease)
        self.in_use += lease.ask.permits

    def end(self, lease: Lease, reason: EndReason, now: int, *, timed: bool) -> End:
        """A lease ends, exactly once. `timed`: it is still among the dues."""
        if timed:
            self.dues.remove(_due(lease), lease.lease_id)
        del self.leases[lease.lease_id]
        self.in_use -= lease.ask.permits
        end = End(lease.lease_id, self._pool, lease.ask.tenant, reason, now)
        self._ended.add(end)
        return end

    def find(self, lease_id: str, tenant: str | None, now: int) -> Lease:
        """A live lease; `tenant` None sees all (rule 17). Raises `lease-not-found`, LeaseEnded."""
        lease = self.leases.get(lease_id)
        if lease is not None and (tenant is None or lease.ask.tenant == tenant):
            return lease
        end = self._ended.get(lease_id, now) if lease is None else None
        if end is None or (tenant is not None and end.tenant != tenant):
            raise lease_not_found()
        raise LeaseEnded(end.reason)

    def reschedule(self, lease: Lease, expires_us: int, drop_us: int | None) -> None:
        """Sets when a lease will end: by expiry, or earlier because its grant was never delivered."""
        self.dues.remove(_due(lease), lease.lease_id)
        lease.expires_us, lease.drop_us = expires_us, drop_us
        self.dues.add(_due(lease), lease.lease_id, lease)

    def drift(self) -> int:
        """Permits in use less the sum over the leases: anything but 0 is a fault."""
        return self.in_use - sum(lease.ask.permits for lease in self.leases.values() if not lease.yielded)


def _due(lease: Lease) -> int:
    return lease.expires_us if lease.drop_us is None else min(lease.expires_us, lease.drop_us)


def lease_not_found() -> Refused:
    """To a stranger a lease does not exist."""
    return Refused("lease-not-found", "There is no such lease.")
