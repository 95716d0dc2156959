"""`check`, section Kubernetes: the Lease, and Leases of the same name by which a second controller leads.

Of another namespace only Leases that somebody renews count: what an uninstalled release left is no controller.
"""

from datetime import datetime

from cloudprovider.checks import CheckResults
from provisioner.operator.config import Config
from provisioner.operator.holders import another_release
from provisioner.runtime.clock import Clock
from provisioner.runtime.kept import whole
from provisioner.runtime.kube import Kube
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.objects import Lease
from provisioner.runtime.resources import LEASES

from .console import moment
from .refusal import by_api_server

# Far longer than a Lease, so that a clock skew of a minute has no effect.
EXPIRED_SECONDS = 600.0
START = "Start the controller, or name its Lease: --leader-election-namespace, --leader-election-name."
ONE_LEASE = "Uninstall that release, or upgrade it: the releases of a cluster use one Lease."


async def lease(kube: Kube, config: Config, clock: Clock, found: CheckResults) -> None:
    """The state of the Lease, and other ones of its name."""
    if not config.elect:
        found.unknown("lease", "leader election is disabled (DISABLE_LEADER_ELECTION)")
        return
    where = f"{config.lease_namespace}/{config.lease_name}"
    try:
        held: Lease | None = await kube.get(LEASES, config.lease_name, namespace=config.lease_namespace)
    except KubeError as error:
        if not error.not_found:
            found.unknown("lease", f"{where}: {error}", by_api_server(error).remedy)
            return
        held = None
    _held(held, where, config, clock, found)
    await _others(kube, held, config, clock, found)


def _held(held: Lease | None, where: str, config: Config, clock: Clock, found: CheckResults) -> None:
    if held is None:
        found.unknown("lease", f"Lease {where} not found: no controller has been leader yet", START)
        return
    spec = held.spec
    if not spec.holder_identity:
        found.failed("lease", f"Lease {where} has no holder: no controller is leader", START)
    elif (_age(held, clock) or 0.0) > EXPIRED_SECONDS:
        renewed = moment(_time(spec.renew_time))
        found.failed("lease", f"Lease {where} was last renewed at {renewed} by {spec.holder_identity}", START)
    elif (other := another_release(config.identity, spec.holder_identity)) is not None:
        message = f"Lease {where} is held by pod {other.pod} in namespace {other.namespace}, of another release"
        found.failed("lease", f"{message}: this one waits", "Uninstall one of the releases.")
    else:
        since = moment(_time(spec.acquire_time)) or "an unknown time"
        found.ok("lease", f"{spec.holder_identity} is leader since {since} ({where})")


async def _others(kube: Kube, held: Lease | None, config: Config, clock: Clock, found: CheckResults) -> None:
    """Leases of the name in other namespaces: the leader itself holds that of earlier versions."""
    try:
        leases = (await kube.list(LEASES, digest=whole, field_selector=f"metadata.name={config.lease_name}")).items
    except KubeError as error:
        why = f"a controller with a Lease in another namespace was not looked for: {error}"
        found.unknown("other leases", why, by_api_server(error).remedy)
        return
    leader = held.spec.holder_identity if held is not None else None
    for one in leases:
        holder, namespace, age = one.spec.holder_identity, one.metadata.namespace, _age(one, clock)
        if namespace == config.lease_namespace or not holder or holder == leader:
            continue
        if age is None or age > EXPIRED_SECONDS:
            continue
        report = found.failed if leader else found.unknown
        message = f"Lease {namespace}/{one.metadata.name} is held by {holder}: a controller leads that does not use"
        report("other leases", f"{message} Lease {config.lease_namespace}/{config.lease_name}", ONE_LEASE)


def _age(one: Lease, clock: Clock) -> float | None:
    """Seconds since it was renewed."""
    renewed = _time(one.spec.renew_time)
    return None if renewed is None else (clock.now() - renewed).total_seconds()


def _time(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text or "")
    except ValueError:
        return None
