"""The offerings of claims, and which of them are unavailable, as one process knows them."""

import asyncio
from collections.abc import Callable

from cloudprovider.cloud import Cloud, Skus
from cloudprovider.interface import Offering
from cloudprovider.inventory import Inventory
from cloudprovider.watches import QuotaWatch, SkuWatch
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.launch_templates import of_claim
from controllers.state.offering_tracker import OfferingTracker
from controllers.state.quota import QuotaReadings
from controllers.state.unavailable_offerings import UnavailableOfferings
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.owner import counted_in, nodepool_of
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
    cloud: Cloud,
    inventory: Inventory,
    skus: Callable[[], Skus] = lambda: None,
    node_class_of: NodeClassOf = lambda claim: None,
    types: Callable[[], InstanceTypes | None] = lambda: None,
) -> Callable[[NodeClaim], tuple[Offering, ...]]:
    """The offerings of a claim in the location of the cluster; those of a NodePool's claim by price.

    `types()`: with their prices; None while they are unknown. `skus`: the sizes that the subscription can use. What
    they exclude is left out of a NodePool's claim, unless that is all of it: Azure's response then is the cause on the
    claim. So is what the node class contradicts of any claim.
    """

    def offerings(claim: NodeClaim) -> tuple[Offering, ...]:
        location, node_class = location_of(inventory), node_class_of(claim)
        found = cloud.allowed_offerings(claim, location)
        if node_class is not None:
            found = tuple(one for one in found if not cloud.contradicts(one, node_class.spec)) or found
        if nodepool_of(claim) is None:
            return found
        known = skus()
        usable = [one for one in found if known is None or not cloud.excluded(known, one, location)]
        current = types()
        priced = current.of_pool(counted_in(claim)) if current is not None else ()
        return cloud.by_price(usable or found, location, priced)

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
    types: Callable[[], InstanceTypes | None],
    creating_seconds: float,
) -> tuple[OfferingTracker, QuotaWatch]:
    """Unavailable offerings of the whole cluster, and the reads of quota for those that wait for it.

    A key is added to the queue when its offering may be tried again.
    """

    cloud = clients.cloud

    def location() -> str:
        return location_of(inventory) or "<location>"

    unavailable = UnavailableOfferings(queue.add)
    watch = QuotaWatch(
        clients.provider,
        on_read=lambda usages, began: quota.read(usages, began, asyncio.get_running_loop().time()),
    )
    quota = QuotaReadings(
        unavailable,
        lambda usages, offering, requested, returned: cloud.quota_of(
            usages, offering, location(), requested=requested, returned=returned, skus=sku_watch.skus
        ),
        lambda usages, names, requested: cloud.quotas_left(
            usages, names, location(), requested=requested, skus=sku_watch.skus
        ),
        wake=queue.add,
        begin=watch.wake,
    )
    watch.add_user(lambda: quota.waiting)

    def withdrawn(offering: Offering) -> str:
        known = sku_watch.skus
        return cloud.excluded(known, offering, location_of(inventory)) if known is not None else ""

    tracker = OfferingTracker(
        unavailable,
        offerings_in(cloud, inventory, lambda: sku_watch.skus, node_class_of, types),
        register_offering_metrics(clients.metrics, cloud, unavailable, observer.errors),
        lambda: elector.vacant_seconds if elector is not None else 0.0,
        quota=quota,
        template_of=lambda claim: of_claim(claim, node_class_of(claim)),
        creating_seconds=creating_seconds,
        withdrawn=withdrawn,
        prices_known=lambda: types() is not None,
    )
    return tracker, watch
