"""The offerings of claims, and which of them are unavailable, as one process knows them."""

import asyncio
from collections.abc import Callable, Mapping

from cloudprovider.azure.class_properties import contradicts
from cloudprovider.azure.offerings import allowed_offerings
from cloudprovider.azure.pricing import by_price
from cloudprovider.azure.quota import family_in, quota_of, quotas_left
from cloudprovider.azure.skus import excluded
from cloudprovider.interface import Offering, ResourceSku
from cloudprovider.inventory import Inventory
from cloudprovider.quota_watch import QuotaWatch
from cloudprovider.sku_watch import SkuWatch
from controllers.provisioning.launch_templates import of_claim
from controllers.state.offering_tracker import OfferingTracker
from controllers.state.quota import QuotaReadings
from controllers.state.unavailable_offerings import UnavailableOfferings
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.owner import nodepool_of
from provisioner.metrics.observers.observer import Observer
from provisioner.metrics.observers.offerings import register_offering_metrics
from provisioner.runtime.leaderelection import LeaderElector
from provisioner.runtime.workqueue import WorkQueue

from .config import Clients

# None: it does not exist, is not known, or is of another kind.
NodeClassOf = Callable[[NodeClaim], AgentPoolNodeClass | None]


def location_of(inventory: Inventory) -> str:
    """The location of the cluster; "" before it was read."""
    return inventory.cluster.location if inventory.cluster is not None else ""


def offerings_in(
    inventory: Inventory,
    skus: Callable[[], Mapping[str, ResourceSku] | None] = lambda: None,
    node_class_of: NodeClassOf = lambda claim: None,
) -> Callable[[NodeClaim], tuple[Offering, ...]]:
    """The offerings of a claim in the location of the cluster; those of a NodePool's claim by price.

    `skus`: the sizes that the subscription can use. What they exclude is left out of a NodePool's claim, unless that is
    all of it: Azure's response then is the cause on the claim. So is what the node class contradicts of any claim.
    """

    def offerings(claim: NodeClaim) -> tuple[Offering, ...]:
        location, node_class = location_of(inventory), node_class_of(claim)
        found = allowed_offerings(claim, location)
        if node_class is not None:
            found = tuple(one for one in found if not contradicts(one, node_class.spec)) or found
        if nodepool_of(claim) is None:
            return found
        known = skus()
        usable = [one for one in found if known is None or not excluded(known, one, location)]
        return by_price(usable or found, location)

    return offerings


def build_offering_tracker(
    clients: Clients,
    queue: WorkQueue,
    observer: Observer,
    elector: LeaderElector | None,
    inventory: Inventory,
    *,
    sku_watch: SkuWatch,
    node_class_of: NodeClassOf,
    creating_seconds: float,
) -> tuple[OfferingTracker, QuotaWatch]:
    """Unavailable offerings of the whole cluster, and the reads of quota for those that wait for it.

    A key is added to the queue when its offering may be tried again.
    """

    def family(size: str) -> str:
        return family_in(sku_watch.skus, size)

    def location() -> str:
        return location_of(inventory) or "<location>"

    unavailable = UnavailableOfferings(queue.add)
    watch = QuotaWatch(
        clients.provider,
        on_read=lambda usages, began: quota.read(usages, began, asyncio.get_running_loop().time()),
    )
    quota = QuotaReadings(
        unavailable,
        lambda usages, offering, requested, returned: quota_of(
            usages, offering, location(), requested=requested, returned=returned, family=family
        ),
        lambda usages, names, requested: quotas_left(usages, names, location(), requested=requested, family=family),
        wake=queue.add,
        begin=watch.wake,
    )
    watch.add_user(lambda: quota.waiting)

    def withdrawn(offering: Offering) -> str:
        known = sku_watch.skus
        return excluded(known, offering, location_of(inventory)) if known is not None else ""

    tracker = OfferingTracker(
        unavailable,
        offerings_in(inventory, lambda: sku_watch.skus, node_class_of),
        register_offering_metrics(clients.metrics, unavailable, observer.errors),
        lambda: elector.vacant_seconds if elector is not None else 0.0,
        quota=quota,
        template_of=lambda claim: of_claim(claim, node_class_of(claim)),
        creating_seconds=creating_seconds,
        withdrawn=withdrawn,
    )
    return tracker, watch
