"""Availability zones of Azure's regions, where the list of sizes of the subscription cannot be read.

Source: https://learn.microsoft.com/en-us/azure/reliability/regions-list.
"""

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
