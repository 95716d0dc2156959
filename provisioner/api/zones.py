"""The zone of a machine outside all zones of its region.

Azure's cloud provider labels such a Node with the number of its fault domain, which is 0 in a scale set. A Node without
the label, and a label that ends with it, count as the same place.

Source: docs/references/nodes.md#zones.
"""

REGIONAL = "0"


def is_regional(zone: str) -> bool:
    """Whether this value of the zone label, "" for none, is that of a machine outside all zones."""
    return zone in ("", REGIONAL) or zone.endswith(f"-{REGIONAL}")


def zone_number(zone: str) -> str:
    """The number that an agent pool requests for this value of the zone label; "" outside all zones."""
    return "" if is_regional(zone) else zone.rpartition("-")[2]
