"""Why a pod stays pending: for each NodePool the first obstacle, with the values that exclude each other.

If machines would take the pod whose offerings are not available now, the causes follow.
"""

from collections.abc import Iterable, Iterator

from provisioner.api.taints import untolerated

from .candidates import Candidate, compatible
from .model import NodePool, Resources, Snapshot
from .requirements import conflict
from .resources import fits
from .views import View
from .work import Work

CAUSES_SHOWN = 2
NO_POOLS = "no NodePool is ready to provision machines"


def explain(snapshot: Snapshot, offered: Iterable[Candidate], unavailable: Iterable[Candidate], work: Work) -> str:
    """One text per NodePool, joined by "; ". `unavailable`: the candidates without an available offering."""
    if not snapshot.node_pools:
        return NO_POOLS
    every, others = tuple(offered), tuple(unavailable)
    return "; ".join(
        f"NodePool {pool.name}: "
        + _obstacle(snapshot, [c for c in every if c.pool is pool], [c for c in others if c.pool is pool], pool, work)
        for pool in sorted(snapshot.node_pools, key=lambda pool: (-pool.weight, pool.name))
    )


def _obstacle(
    snapshot: Snapshot, offered: list[Candidate], unavailable: list[Candidate], pool: NodePool, work: Work
) -> str:
    view = work.view
    taint = untolerated(pool.taints, work.spec.tolerations, ignore_preferred=view.ignore_preferred_taints)
    if taint is not None:
        return f"did not tolerate taint (taint={taint})"
    causes = _causes(snapshot, unavailable, work)
    if not offered:
        return f"no instance type with an available offering satisfies its requirements{causes}"
    fitting = [c for c in offered if compatible(c, work.spec, view, snapshot.well_known) is not None]
    if not fitting:
        return _incompatible(snapshot, offered, pool, view) + causes
    roomy = [c for c in fitting if fits(work.requests, c.allocatable)]
    if not roomy:
        short = ", ".join(_short(work.requests, fitting))
        return f"no compatible instance type has enough resources: {short}{causes}"
    exhausted = sorted({name for name in pool.limits if all(_exceeds(pool, c, name) for c in roomy)})
    if exhausted:
        return f"limits of the NodePool are exhausted: {', '.join(exhausted)}"
    if pool.limits:
        return f"limits of the NodePool do not allow another machine: {', '.join(sorted(pool.limits))}"
    if view.topology:
        return "its topology spread or pod affinity constraints allow no machine"
    if snapshot.max_new is not None:
        return f"the limit of {snapshot.max_new} new agent pools is reached"
    return "no machine was found"


def _causes(snapshot: Snapshot, unavailable: list[Candidate], work: Work) -> str:
    """Why machines that would take the pod are not available, the cheapest first."""
    found = dict.fromkeys(
        c.cause
        for c in unavailable
        if c.cause
        and compatible(c, work.spec, work.view, snapshot.well_known) is not None
        and fits(work.requests, c.allocatable)
    )
    if not found:
        return ""
    shown = ", ".join([*found][:CAUSES_SHOWN])
    rest = f" and {len(found) - CAUSES_SHOWN} more" if len(found) > CAUSES_SHOWN else ""
    return f" (not available now: {shown}{rest})"


def _incompatible(snapshot: Snapshot, offered: list[Candidate], pool: NodePool, view: View) -> str:
    texts = []
    for alternative in view.alternatives:
        keys = {conflict(c.requirements, alternative, snapshot.well_known) for c in offered}
        if not keys or "" in keys:
            texts.append("host ports or daemon pods conflict")
            continue
        for key in sorted(keys):
            values = {value for c in offered if key in c.requirements for value in c.requirements[key].values}
            have = f"the machines have {_listed(values)}" if values else "the machines do not have this label"
            if key in pool.requirements:
                have = f"the NodePool has {pool.requirements[key]}"
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


def _listed(values: Iterable[str]) -> str:
    shown = sorted(values)
    rest = f" and {len(shown) - 5} others" if len(shown) > 5 else ""
    return f"[{' '.join(shown[:5])}{rest}]"


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
