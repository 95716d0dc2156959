"""The offerings of claims, and which of them are unavailable, as one process knows them."""

import asyncio
from collections.abc import Callable, Mapping

from cloudprovider.azure.errors import failure_from_condition
from cloudprovider.azure.offerings import allowed_offerings
from cloudprovider.azure.pricing import by_price
from cloudprovider.azure.quota import family_of, quota_of, shortage
from cloudprovider.azure.skus import excluded
from cloudprovider.interface import Offering, ResourceSku
from cloudprovider.inventory import Inventory
from cloudprovider.quota_watch import QuotaWatch
from cloudprovider.sku_watch import SkuWatch
from controllers.state.offering_tracker import OfferingTracker
from controllers.state.quota import QuotaReadings
from controllers.state.unavailable_offerings import UnavailableOfferings
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.owner import nodepool_of
from provisioner.metrics.observers.observer import Observer
from provisioner.metrics.observers.offerings import register_offering_metrics
from provisioner.runtime.leaderelection import LeaderElector
from provisioner.runtime.workqueue import WorkQueue

from .config import Clients


def location_of(inventory: Inventory) -> str:
    """The location of the cluster; "" before it was read."""
    return inventory.cluster.location if inventory.cluster is not None else ""


def offerings_in(
    inventory: Inventory, skus: Callable[[], Mapping[str, ResourceSku] | None] = lambda: None
) -> Callable[[NodeClaim], tuple[Offering, ...]]:
    """The offerings of a claim in the location of the cluster; those of a NodePool's claim by price.

    `skus`: the sizes that the subscription can use. What they exclude is left out of a NodePool's claim, unless that is
    all of it: Azure's response then is the cause on the claim.
    """

    def offerings(claim: NodeClaim) -> tuple[Offering, ...]:
        location = location_of(inventory)
        found = allowed_offerings(claim, location)
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
) -> tuple[OfferingTracker, QuotaWatch]:
    """Unavailable offerings of the whole cluster, and the reads of quota for those that wait for it.

    A key is added to the queue when its offering may be tried again.
    """

    def family(size: str) -> str:
        sku = (sku_watch.skus or {}).get(size.casefold())
        return sku.family if sku is not None else family_of(size)

    def location() -> str:
        return location_of(inventory) or "<location>"

    unavailable = UnavailableOfferings(queue.add)
    watch = QuotaWatch(
        clients.provider,
        on_read=lambda usages, began: quota.read(usages, began, asyncio.get_running_loop().time()),
    )
    quota = QuotaReadings(
        unavailable,
        lambda usages, offering: quota_of(usages, offering, location()),
        queue.add,
        watch.wake,
        lambda usages, offering, requested: shortage(usages, offering, location(), requested=requested, family=family),
    )
    watch.add_user(lambda: quota.waiting)
    tracker = OfferingTracker(
        unavailable,
        offerings_in(inventory, lambda: sku_watch.skus),
        register_offering_metrics(clients.metrics, unavailable, observer.errors),
        failure_from_condition,
        lambda: elector.vacant_seconds if elector is not None else 0.0,
        quota=quota,
    )
    return tracker, watch
