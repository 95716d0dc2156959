"""Why a pod stays pending: for each NodePool the first obstacle, with the values that exclude each other.

If machines would take the pod whose offerings are not available now, the causes follow.
"""

from collections.abc import Iterable, Iterator, Mapping

from provisioner.api.labels import COST_PER_HOUR
from provisioner.api.meta import Taint
from provisioner.api.requirements import conflict
from provisioner.api.taints import untolerated
from provisioner.api.value_sets import ANY

from .candidates import Candidate
from .min_values import short_of
from .model import NO_RESOURCES, NodePool, Resources, Snapshot
from .offers import Offers
from .resources import UNPRICED
from .views import View
from .work import Work

CAUSES_SHOWN = 2
ALTERNATIVES_SHOWN = 10
NO_POOLS = "no NodePool is ready to provision machines"


def explain(
    snapshot: Snapshot, offered: Offers, unavailable: Offers, work: Work, left: Mapping[str, int] = NO_RESOURCES
) -> str:
    """One text per NodePool, joined by "; ". `unavailable`: the candidates without an available offering.

    `left`: what the decision leaves of the quotas that limited it.
    """
    if work.spec.misfits.waits:
        return work.spec.misfits.waits
    if not snapshot.node_pools:
        return NO_POOLS
    return "; ".join(
        f"NodePool {pool.name}: " + _obstacle(snapshot, offered, unavailable, pool, work, left=left)
        for pool in sorted(snapshot.node_pools, key=lambda pool: (-pool.weight, pool.name))
    )


def _obstacle(
    snapshot: Snapshot, offered: Offers, unavailable: Offers, pool: NodePool, work: Work, *, left: Mapping[str, int]
) -> str:
    view, own = work.view, offered.of_pool(pool)
    if (taint := _untolerated(pool.taints, work)) is not None:
        return f"did not tolerate taint (taint={taint})"
    causes = _causes(unavailable, pool, work)
    if not own:
        return f"no instance type with an available offering satisfies its requirements{causes}"
    fitting = own & offered.compatible(work.spec, view)
    if not fitting:
        if paused := dict(work.spec.misfits.node_pools).get(pool.name):
            return paused
        if names := sorted(name for of, name in work.spec.misfits.types if of == pool.name):
            return f"machines of its VM sizes did not take the pod before: {', '.join(names)}"
        refused = [_untolerated(one.taints, work) for one in offered.picked(own)]
        if (taint := refused[0]) is not None and all(refused):
            return f"did not tolerate taint (taint={taint})"
        return _incompatible(snapshot, [*offered.picked(own)], pool, view) + causes
    roomy = [*offered.picked(fitting & offered.roomy(work.requests))]
    if not roomy:
        short = ", ".join(_short(work.requests, [*offered.picked(fitting)]))
        return f"no compatible instance type has enough resources: {short}{causes}"
    if label := short_of(pool.requirements, roomy):
        return f"minValues of {label} are not met"
    exhausted = sorted({name for name in pool.limits if all(_exceeds(pool, c, name) for c in roomy)})
    if exhausted:
        cost = _cost(pool, roomy) if COST_PER_HOUR in exhausted else ""
        return f"limits of the NodePool are exhausted: {', '.join(exhausted)}{cost}"
    if quota := _quota(snapshot, roomy, left):
        return quota
    if pool.limits:
        return f"limits of the NodePool do not allow another machine: {', '.join(sorted(pool.limits))}"
    if view.topology:
        return "its topology spread or pod affinity constraints allow no machine"
    if snapshot.max_new is not None:
        return f"the limit of {snapshot.max_new} new agent pools is reached"
    return "no machine was found"


def _quota(snapshot: Snapshot, roomy: Iterable[Candidate], left: Mapping[str, int]) -> str:
    """The quota that the cheapest machine lacks, if each machine lacks one; "" otherwise."""
    lacking = [[name for name, needed in one.quotas.items() if needed > left.get(name, needed)] for one in roomy]
    if not all(lacking):
        return ""
    name = lacking[0][0]
    quota = snapshot.quotas[name]
    return f"{quota.text}, {quota.left - left[name]} more for machines of other pods. {quota.remedy}"


def _untolerated(taints: Iterable[Taint], work: Work) -> Taint | None:
    return untolerated(taints, work.spec.tolerations, ignore_preferred=work.view.ignore_preferred_taints)


def _causes(unavailable: Offers, pool: NodePool, work: Work) -> str:
    """Why machines that would take the pod are not available, the cheapest first."""
    taking = unavailable.of_pool(pool) & unavailable.fitting(work.spec, work.view, work.requests)
    found = dict.fromkeys(one.cause for one in unavailable.picked(taking) if one.cause)
    if not found:
        return ""
    shown = ", ".join([*found][:CAUSES_SHOWN])
    rest = f" and {len(found) - CAUSES_SHOWN} more" if len(found) > CAUSES_SHOWN else ""
    return f" (not available now: {shown}{rest})"


def _incompatible(snapshot: Snapshot, offered: list[Candidate], pool: NodePool, view: View) -> str:
    texts = []
    for alternative in view.alternatives[:ALTERNATIVES_SHOWN]:
        keys = {conflict(c.requirements, alternative, snapshot.well_known) for c in offered}
        if not keys or "" in keys:
            texts.append("host ports or daemon pods conflict")
            continue
        for key in sorted(keys):
            values = {value for c in offered if key in c.requirements for value in c.requirements[key].values}
            have = f"the machines have {_listed(values)}" if values else "the machines do not have this label"
            if (own := pool.requirements.get(key, ANY)) != ANY:
                have = f"the NodePool has {own}"
            texts.append(f"incompatible requirements: {key} {alternative[key]}, {have}")
    return ", or ".join(dict.fromkeys(texts))


def _short(requests: Resources, fitting: list[Candidate]) -> Iterator[str]:
    for name, amount in sorted(requests.items()):
        most = max(c.allocatable.get(name, 0) for c in fitting)
        if amount > most:
            yield f"{name} {quantity(name, amount)} requested, at most {quantity(name, max(0, most))} on one machine"
    if all(amount <= max(c.allocatable.get(n, 0) for c in fitting) for n, amount in requests.items()):
        yield "no single machine has all of its requests"


def _exceeds(pool: NodePool, candidate: Candidate, name: str) -> bool:
    amount = 1000 if name == "nodes" else candidate.capacity.get(name, 0)
    return pool.used.get(name, 0) + amount > pool.limits[name]


def _cost(pool: NodePool, roomy: Iterable[Candidate]) -> str:
    """The amounts of a limit on the cost that allows none of these machines."""
    used, costs = pool.used.get(COST_PER_HOUR, 0), [one.capacity.get(COST_PER_HOUR, 0) for one in roomy]
    unknown = "a machine of it" if used >= UNPRICED else "another machine" if min(costs) >= UNPRICED else ""
    if unknown:
        return f" (the price of {unknown} is not known: state it with a NodeOverlay or --prices)"
    most = pool.limits[COST_PER_HOUR]
    return f" (its machines cost {used / 1000:g} of {most / 1000:g} USD an hour, another one {min(costs) / 1000:g})"


def _listed(values: Iterable[str]) -> str:
    shown = sorted(values)
    rest = f" and {len(shown) - 5} others" if len(shown) > 5 else ""
    return f"[{' '.join(shown[:5])}{rest}]"


def quantities(resources: Resources) -> dict[str, str]:
    """Resources in the notation of Kubernetes, by name."""
    return {name: quantity(name, amount) for name, amount in sorted(resources.items())}


def quantity(name: str, thousandths: int) -> str:
    """An amount in the notation of Kubernetes: CPU in cores or millicores, memory in bytes or a binary unit."""
    if thousandths % 1000:
        return f"{thousandths}m" if name == "cpu" else str(-(-thousandths // 1000))
    whole = thousandths // 1000
    if name != "cpu" and "/" not in name and whole >= 1024:
        for power, suffix in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
            if whole % 1024**power == 0:
                return f"{whole // 1024**power}{suffix}"
    return str(whole)
