"""Azure's regions: their zones where the list of sizes of the subscription cannot be read, and the zones' labels.

Source: https://learn.microsoft.com/en-us/azure/reliability/regions-list.
"""

import re

from .pricing import regions

DEFAULT = "eastus"
OTHER_CLOUDS = re.compile("(usgov|usdod|china)[a-z0-9]+")
ZONES = ("1", "2", "3")
# All other regions have three zones.
WITHOUT_ZONES = frozenset(
    {
        "australiacentral",
        "australiacentral2",
        "australiasoutheast",
        "brazilsoutheast",
        "canadaeast",
        "francesouth",
        "germanynorth",
        "jioindiacentral",
        "jioindiawest",
        "koreasouth",
        "northcentralus",
        "norwaywest",
        "southafricawest",
        "southindia",
        "swedensouth",
        "switzerlandwest",
        "uaecentral",
        "ukwest",
        "westcentralus",
        "westindia",
        "westus",
    }
)


def zones_of(region: str) -> tuple[str, ...]:
    """The numbers of the zones of a region; () for one without zones."""
    return () if region in WITHOUT_ZONES else ZONES


def region_of(zone: str) -> str:
    """The region of the value of a zone label, such as eastus-1; "" if there is none of this name.

    It may be the zone of a data center of its own: of regions without prices those of Azure's other clouds count.
    """
    name = zone.rpartition("-")[0]
    return name if name in regions() or OTHER_CLOUDS.fullmatch(name) else ""
