"""The offerings that one failure makes unavailable.

Source: docs/references/rules.md#unavailable-offerings.
"""

import msgspec

from cloudprovider.errors import Scope
from cloudprovider.interface import CapacityType, Offering


class OfferingScope(msgspec.Struct, frozen=True, kw_only=True):
    """The offerings that a failure makes unavailable; None matches any value."""

    size: str | None = None
    zone: str | None = None
    capacity_type: CapacityType | None = None

    def covers(self, offering: Offering) -> bool:
        """Whether this offering is among them."""
        return (
            self.size in (None, offering.size)
            and self.zone in (None, offering.zone)
            and self.capacity_type in (None, offering.capacity_type)
        )


def offering_scope(offering: Offering, scope: Scope) -> OfferingScope:
    """The offerings that a failure of this offering within `scope` makes unavailable."""
    match scope:
        case "size":
            return OfferingScope(size=offering.size, capacity_type=offering.capacity_type)
        case "zone":
            return OfferingScope(size=offering.size, zone=offering.zone)
        case "priority" | "region":
            return OfferingScope(capacity_type=offering.capacity_type)
        case "configuration":
            # The cause may be this claim's configuration, which must not affect other offerings.
            return OfferingScope(size=offering.size, zone=offering.zone, capacity_type=offering.capacity_type)
        case "cluster":
            return OfferingScope()
