"""What a size promises and what a claim allows, as the rules ask for it and Azure's data has it.

Pure; what cannot be expressed allows nothing, and the attempt to create it tells why.
"""

from cloudprovider.azure.instance_types import lookup
from cloudprovider.azure.offerings import offerings
from cloudprovider.errors import Rejected
from cloudprovider.interface import Offering
from controllers.model.facts import Gpus
from provisioner.api.nodeclaim import NodeClaim


def gpus_of(size: str) -> Gpus:
    """What a size promises: sizes that are no GPU sizes promise nothing, unlisted GPU sizes nothing we know."""
    sku = lookup(size)
    if sku is not None:
        return Gpus(resource=sku.resource, count=sku.gpus)
    return Gpus(known=not size.lower().startswith("standard_n"))


def offerings_of(claim: NodeClaim) -> tuple[Offering, ...]:
    """What a claim allows, the preferred first; () if it cannot be expressed, which the attempt to create it tells."""
    try:
        return offerings(claim)
    except Rejected:
        return ()
