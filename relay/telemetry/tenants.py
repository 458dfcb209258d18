"""Which tenants get a label of their own in metrics and usage."""

from __future__ import annotations

MAX_TENANTS = 200
OTHER = "other"


class Tenants:
    """The tenants that get a label of their own: the first 200; all others are `other`."""

    __slots__ = ("labels",)

    def __init__(self) -> None:
        self.labels: set[str] = set()

    def label(self, tenant: str) -> str:
        """The label under which a tenant is counted."""
        if tenant in self.labels:
            return tenant
        if len(self.labels) < MAX_TENANTS:
            self.labels.add(tenant)
            return tenant
        return OTHER
