"""The offerings that one failure makes unavailable: to all claims, or to those of one launch template or subnet.

A refused request (a policy, a subnet, a disk that does not fit) says nothing about other node classes, so that it
concerns the claims that would send the same request. Their launch template is what the request consists of besides its
offering (`controllers.provisioning.launch_templates`). A full subnet concerns the claims whose machines are in it.

Source: docs/references/rules.md#unavailable-offerings.
"""

from typing import NamedTuple

import msgspec

from cloudprovider.errors import Scope
from cloudprovider.interface import CapacityType, Offering


class LaunchTemplate(NamedTuple):
    """`text`: all that requests have in common. `subnet`: its ID, "" for that of the cluster, None if not known."""

    text: str = ""
    subnet: str | None = None


UNKNOWN = LaunchTemplate()


class OfferingScope(msgspec.Struct, frozen=True, kw_only=True):
    """The offerings that a failure makes unavailable; None matches any value.

    `template` "" and `subnet` None: to all claims. `uncreated`: only to claims that do not exist yet.
    """

    size: str | None = None
    zone: str | None = None
    capacity_type: CapacityType | None = None
    template: str = ""
    subnet: str | None = None
    uncreated: bool = False

    def covers(self, offering: Offering, template: LaunchTemplate = UNKNOWN) -> bool:
        """Whether this offering is among them for a claim of this launch template."""
        return self.concerns(template) and self.includes(offering)

    @property
    def everyone(self) -> bool:
        """Whether all claims are concerned."""
        return self.concerns(UNKNOWN)

    def concerns(self, template: LaunchTemplate) -> bool:
        """Whether claims of this launch template are concerned."""
        return self.template in ("", template.text) and self.subnet in (None, template.subnet)

    def includes(self, offering: Offering) -> bool:
        """Whether this offering is among them for the claims that are concerned."""
        return (
            self.size in (None, offering.size)
            and self.zone in (None, offering.zone)
            and self.capacity_type in (None, offering.capacity_type)
        )


def offering_scope(
    offering: Offering, scope: Scope, template: LaunchTemplate = UNKNOWN, *, refused: bool = False
) -> OfferingScope:
    """The offerings that a failure of this offering within `scope` makes unavailable.

    `template`: of the claim that requested it. `refused`: the request was refused, which concerns its template alone.
    """
    found = _in_scope(offering, scope)
    if refused:
        return msgspec.structs.replace(found, template=template.text)
    return msgspec.structs.replace(found, subnet=template.subnet) if scope == "subnet" else found


def _in_scope(offering: Offering, scope: Scope) -> OfferingScope:
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
        case "cluster" | "subnet" | "request":
            return OfferingScope()
