"""A person's confirmation, written where the leader reads it: an annotation of its Lease.

Bound to the version of the Lease that was read, and tried again when a renewal came between; nothing else of
the Lease is touched, and the lease itself is never taken. Without a living leader nothing is written, because nobody
would obey it.
"""

from datetime import datetime, timedelta

from controllers.model.confirmation import CONFIRMED_SECONDS, Confirmation, decode, encode
from provisioner.api import labels
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.objects import Lease
from provisioner.runtime.resources import LEASES

from .clients import Tools
from .refusal import Refused, by_api_server
from .tables import moment

# A leader renews every few seconds: each write of ours races one.
TRIES = 5
# Far beyond any lease, so that two clocks that differ by a minute call nobody dead.
SILENT_SECONDS = 600.0

START = "Start the controller, and name its lease with --leader-election-namespace and --leader-election-name."


async def leader(tools: Tools) -> Lease:
    """The Lease of a controller that leads. Raises Refused."""
    name, namespace = tools.config.lease_name, tools.config.lease_namespace
    try:
        lease = await tools.clients.kube.get(LEASES, name, namespace=namespace)
    except KubeError as error:
        if not error.not_found:
            raise by_api_server(error) from None
        raise Refused(f"there is no Lease {namespace}/{name}, so no controller would see it", START) from None
    if not lease.spec.holder_identity:
        raise Refused(f"nobody holds the Lease {namespace}/{name}, so no controller would see it", START)
    renewed = _renewed(lease)
    if renewed is not None and (tools.clients.clock.now() - renewed).total_seconds() > SILENT_SECONDS:
        since = moment(renewed)
        raise Refused(f"the Lease {namespace}/{name} was last renewed at {since}: no controller runs", START)
    return lease


async def standing(tools: Tools) -> Confirmation | None:
    """What is confirmed at this moment, None if nothing is. Raises Refused."""
    try:
        lease = await tools.clients.kube.get(LEASES, tools.config.lease_name, namespace=tools.config.lease_namespace)
    except KubeError as error:
        if error.not_found:
            return None
        raise by_api_server(error) from None
    found = decode(lease.metadata.annotations.get(labels.CONFIRMED_REMOVALS, ""))
    return found if found is not None and tools.clients.clock.now() < found.until else None


async def confirm(tools: Tools, pools: tuple[str, ...]) -> Confirmation:
    """Confirm the removals of exactly these pools; whatever was confirmed before is replaced. Raises Refused."""
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
    raise Refused(f"the Lease changed under each of {TRIES} writes", "Run this again.")


def _renewed(lease: Lease) -> datetime | None:
    try:
        return datetime.fromisoformat(lease.spec.renew_time or "")
    except ValueError:
        return None
