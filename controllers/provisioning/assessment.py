"""What the machines that were bought for pods have shown: which of them do not take these pods, and which still may.

A machine counts when its Node shows that it does not take the pod, when it could take it and kube-scheduler has not
bound the pod in time, or when it is removed before it took one.

Source: docs/adr/0063-purchase-brake.md.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from provisioner.api.conditions import LAUNCHED

from .bought_case import Case, cases
from .bought_machine import Machine, Waiting
from .bought_state import SETTLE_SECONDS, state_of
from .brake_records import Index, Ran, Strike
from .fit import Fit, fit
from .solver import model
from .strikes import NOT_READY, abandoned, strike_of

# kube-scheduler binds a new pod to a machine that takes it sooner.
ABANDONED_SECONDS = 30.0


class Assessment(msgspec.Struct, kw_only=True):
    """`strikes`: what is to be recorded. `nodes`: those that do not take a shape.

    `coming`: how many machines may still take a pod, by UID. `held`: why pods of a shape wait for a machine that others
    may still change; `expected`: the names of these machines. `trying`: NodePools, each with a shape or a namespace,
    whose machines have not shown yet whether they take such pods. `proven`: the NodePools and shapes of pods that were
    bound to machines which were bought for pods.
    """

    strikes: list[Strike] = []
    nodes: dict[str, set[str]] = {}
    coming: Counter[str] = msgspec.field(default_factory=Counter)
    held: dict[str, str] = {}
    expected: set[str] = set()
    trying: set[tuple[str, str]] = set()
    proven: set[tuple[str, str]] = set()


def assess_machines(
    machines: Sequence[Machine],
    waiting: Sequence[Waiting],
    records: Index,
    daemons: Sequence[model.PodSpec],
    well_known: frozenset[str],
    *,
    ran: Mapping[tuple[str, str], Ran],
    turn: int = 0,
) -> Assessment:
    """What the machines that were bought for waiting pods have shown.

    `ran`: as `ran_of` the machines. `turn`: of passes; each compares others first.
    """
    assessed = Assessment()

    def compare(one: model.ExistingNode, spec: model.PodSpec) -> Fit:
        return fit(one, spec, daemons, well_known)

    for case in cases(machines, waiting, records, compare, turn):
        shape = case.shape
        match "misfit" if case.known else state_of(case):
            case "misfit":
                _exclude(assessed, case)
                strike = None if case.known else strike_of(case)
                if strike is not None and records.is_news(strike) and not _is_over(strike, ran):
                    assessed.strikes.append(strike)
            case "held":
                assessed.coming.update(case.uids)
                if case.one.node is not None and case.found is not None:
                    name = case.one.node.name
                    why = case.found.what or NOT_READY
                    assessed.held[shape] = f"waiting for Node {name}, which was bought for it: {why}"
                    assessed.expected |= {name, case.one.claim.name}
            case "coming":
                assessed.coming.update(case.uids)
    _others(assessed, machines, waiting, records)
    return assessed


def _others(assessed: Assessment, machines: Iterable[Machine], waiting: Iterable[Waiting], records: Index) -> None:
    """What machines show besides the pods that wait: they run others, are not ready yet, or their pods are gone."""
    oldest: dict[str, Waiting] = {}
    for pod in waiting:
        before = oldest.get(pod.pod.metadata.namespace)
        if before is None or pod.seconds > before.seconds:
            oldest[pod.pod.metadata.namespace] = pod
    for one in machines:
        shown = one.initialized_seconds is not None and one.initialized_seconds >= SETTLE_SECONDS
        failed = one.claim.condition(LAUNCHED, "False") is not None
        assessed.proven |= {(one.node_pool, shape) for shape in (*one.purchase.pods, *one.took) if one.served(shape)}
        if not (shown or failed or one.claim.deleting or one.bound):
            about = (*one.purchase.pods, *one.purchase.namespaces, "")
            assessed.trying.update((one.node_pool, name) for name in about)
        if one.abandoned and one.unused and one.healthy and (shown or one.claim.deleting):
            for namespace in oldest.keys() & set(one.purchase.namespaces):
                strike = abandoned(one, namespace, oldest[namespace])
                if not records.is_news(strike):
                    continue
                if oldest[namespace].seconds >= ABANDONED_SECONDS:
                    assessed.strikes.append(strike)
                else:
                    assessed.trying.add((one.node_pool, namespace))


def _is_over(strike: Strike, ran: Mapping[tuple[str, str], Ran]) -> bool:
    """Whether a strike for no pod is over at once, because a later machine took a pod of the shape."""
    served = ran.get((strike.node_pool, strike.shape))
    return not strike.uids and served is not None and served.created > max(strike.round_end, strike.created)


def _exclude(assessed: Assessment, case: Case) -> None:
    if case.one.node is not None:
        assessed.nodes.setdefault(case.pods[0].shape, set()).add(case.one.node.name)


def ran_of(machines: Iterable[Machine]) -> dict[tuple[str, str], Ran]:
    """The newest machine that took a pod, by NodePool and shape."""
    ran: dict[tuple[str, str], Ran] = {}
    for one in machines:
        for shape in {*one.purchase.pods, *one.took}:
            if one.served(shape):
                key, found = (one.node_pool, shape), Ran(one.claim.metadata.creation_timestamp, one.instance_type)
                ran[key] = max(ran.get(key, found), found)
    return ran
