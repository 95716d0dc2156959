"""The confirmation of inferred removals, an annotation on the leader's Lease.

The write is bound to the version of the Lease that was read, and retried when a renewal came first. Nothing else of the
Lease is changed. Without a current leader the confirmation is refused, because no controller would read it.
"""

from datetime import datetime, timedelta

import msgspec

from cloudprovider import prices
from cloudprovider.prices import RetailPrices
from controllers.model import recent_removals
from controllers.model.confirmation import CONFIRMED_SECONDS, Confirmation, decode, encode
from controllers.model.recent_removals import RecentRemoval
from provisioner.api import labels
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.objects import Lease
from provisioner.runtime.resources import LEASES

from .clients import Tools
from .console import moment
from .refusal import Refused, by_api_server

# The leader renews the Lease every few seconds, and each renewal can cause a conflict.
TRIES = 5
# Far longer than a Lease, so that a clock skew of a minute has no effect.
EXPIRED_SECONDS = 600.0

START = "Start the controller, and name its Lease with --leader-election-namespace and --leader-election-name."


class LeaseState(msgspec.Struct, frozen=True):
    """`confirmation`: the one in effect, if any; `removals`: inferred removals that count toward the limit.

    `prices`: the retail prices by which the controller decides, None without any.
    """

    confirmation: Confirmation | None = None
    removals: tuple[RecentRemoval, ...] = ()
    prices: RetailPrices | None = None


async def leader(tools: Tools) -> Lease:
    """The Lease of the current leader. Raises Refused."""
    name, namespace = tools.config.lease_name, tools.config.lease_namespace
    try:
        lease = await tools.clients.kube.get(LEASES, name, namespace=namespace)
    except KubeError as error:
        if not error.not_found:
            raise by_api_server(error) from None
        raise Refused(f"Lease {namespace}/{name} not found: no controller would read the confirmation", START) from None
    if not lease.spec.holder_identity:
        raise Refused(f"Lease {namespace}/{name} has no holder: no controller would read the confirmation", START)
    renewed = _renewed(lease)
    if renewed is not None and (tools.clients.clock.now() - renewed).total_seconds() > EXPIRED_SECONDS:
        since = moment(renewed)
        raise Refused(f"Lease {namespace}/{name} was last renewed at {since}: no controller is running", START)
    return lease


async def current(tools: Tools) -> LeaseState:
    """What the Lease says of inferred removals and of prices. Raises Refused."""
    try:
        lease = await tools.clients.kube.get(LEASES, tools.config.lease_name, namespace=tools.config.lease_namespace)
    except KubeError as error:
        if error.not_found:
            return LeaseState()
        raise by_api_server(error) from None
    return lease_state(lease, tools.clients.clock.now())


def lease_state(lease: Lease, now: datetime) -> LeaseState:
    """What this Lease says of inferred removals and of prices; a confirmation that has expired is left out."""
    annotations = lease.metadata.annotations
    found = decode(annotations.get(labels.CONFIRMED_REMOVALS, ""))
    return LeaseState(
        confirmation=found if found is not None and now < found.until else None,
        removals=recent_removals.decode(annotations.get(labels.INFERRED_REMOVALS, "")) or (),
        prices=prices.decode(annotations.get(labels.RETAIL_PRICES, "")),
    )


async def confirm(tools: Tools, pools: tuple[str, ...]) -> Confirmation:
    """Confirm the removals of these agent pools, in place of any earlier confirmation. Raises Refused."""
    until = tools.clients.clock.now().replace(microsecond=0) + timedelta(seconds=CONFIRMED_SECONDS)
    confirmation = Confirmation(until=until, removals=pools)
    for _ in range(TRIES):
        lease = await leader(tools)
        meta = lease.metadata
        body = {
            "metadata": {
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
                "annotations": {labels.CONFIRMED_REMOVALS: encode(confirmation)},
            }
        }
        try:
            await tools.clients.kube.patch(LEASES, meta.name, body, patch_type="merge", namespace=meta.namespace)
        except KubeError as error:
            if error.conflict or error.not_found:
                continue
            raise by_api_server(error) from None
        return confirmation
    raise Refused(f"the Lease changed during each of {TRIES} writes", "Run the command again.")


def _renewed(lease: Lease) -> datetime | None:
    try:
        return datetime.fromisoformat(lease.spec.renew_time or "")
    except ValueError:
        return None
