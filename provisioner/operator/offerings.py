"""The offerings of claims, and which of them are unavailable, as one process knows them."""

import asyncio
from collections.abc import Callable

from cloudprovider.azure.errors import failure_from_condition
from cloudprovider.azure.offerings import allowed_offerings
from cloudprovider.azure.pricing import by_price
from cloudprovider.azure.quota import quota_of
from cloudprovider.interface import Offering
from cloudprovider.inventory import Inventory
from cloudprovider.quota_watch import QuotaWatch
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


def offerings_in(inventory: Inventory) -> Callable[[NodeClaim], tuple[Offering, ...]]:
    """The offerings of a claim in the location of the cluster; those of a NodePool's claim by price."""

    def offerings(claim: NodeClaim) -> tuple[Offering, ...]:
        location = location_of(inventory)
        found = allowed_offerings(claim, location)
        return by_price(found, location) if nodepool_of(claim) is not None else found

    return offerings


def build_offering_tracker(
    clients: Clients,
    queue: WorkQueue,
    observer: Observer,
    elector: LeaderElector | None,
    inventory: Inventory,
    *,
    unavailable: UnavailableOfferings,
) -> tuple[OfferingTracker, QuotaWatch]:
    """Unavailable offerings of the whole cluster, and the reads of quota for those that wait for it.

    A key is added to the queue when its offering may be tried again.
    """
    watch = QuotaWatch(
        clients.provider,
        waiting=lambda: quota.waiting,
        on_read=lambda usages: quota.read(usages, asyncio.get_running_loop().time()),
    )
    quota = QuotaReadings(
        unavailable,
        lambda usages, offering: quota_of(usages, offering, location_of(inventory) or "<location>"),
        queue.add,
        watch.wake,
    )
    tracker = OfferingTracker(
        unavailable,
        offerings_in(inventory),
        register_offering_metrics(clients.metrics, unavailable, observer.errors),
        failure_from_condition,
        lambda: elector.vacant_seconds if elector is not None else 0.0,
        quota=quota,
    )
    return tracker, watch
