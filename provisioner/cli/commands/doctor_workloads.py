"""DaemonSets and Jobs that should run on a Node and do not: what keeps their pods away, and the tolerations to add.

A DaemonSet should run on each Node that it selects, and one that names the vendor of the Node's GPUs on each. A Job
should run there if it selects the Node by more than its operating system, carries its name (as those of GPU Kernel
Manager do), or has a pod that is not Ready and that only a taint of the Node keeps away.
"""

from collections.abc import Iterator, Sequence

import msgspec

from controllers.model.diagnosis import Workloads
from controllers.node.health.placement import PASSING, KeptAway, described, keeps_away, missing_tolerations, place_of
from controllers.node.health.plugin_pods import not_running, pod_of
from provisioner.api import labels
from provisioner.api.meta import Taint
from provisioner.api.node import Node
from provisioner.api.node_affinity import selected_keys
from provisioner.api.pod import Toleration
from provisioner.api.workload import DaemonSet, Job, Workload
from provisioner.vendors import vendor_of

# Labels that every Node of a kind has.
COMMON = frozenset({labels.OS, labels.ARCH, f"beta.{labels.OS}", f"beta.{labels.ARCH}"})
# The label of GPU Kernel Manager's Jobs with the name of their Node.
NODE_LABEL = "node"


class AddedToleration(msgspec.Struct, frozen=True, kw_only=True):
    """One toleration in the words of a manifest. `value` "": the operator is Exists."""

    key: str
    operator: str
    value: str
    effect: str


class Missing(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A workload that does not run on the Node, why, and the tolerations that its pods lack, with their place.

    `pod`: the one on the Node that is not running, as `namespace/name`; "" if there is none.
    """

    kind: str
    namespace: str
    name: str
    problem: str
    pod: str = ""
    tolerations: tuple[AddedToleration, ...] = ()
    add_to: str = ""


def missing(
    found: Workloads, jobs: Sequence[Job], node: Node, resource: str, startup: Sequence[Taint]
) -> tuple[Missing, ...]:
    """The workloads that should run on the Node and do not, by kind and name. `startup`: the claim's startup taints.

    Taints that pass by themselves do not count.
    """
    lasting = tuple(taint for taint in node.spec.taints if not taint.key.startswith(PASSING))
    node = msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=lasting))
    made = [
        *(_missing_daemons(found, node, resource, startup)),
        *(_missing_jobs(jobs, node, startup)),
    ]
    return tuple(sorted(made, key=lambda one: (one.kind, one.namespace, one.name)))


def _missing_daemons(found: Workloads, node: Node, resource: str, startup: Sequence[Taint]) -> Iterator[Missing]:
    for one in found.daemon_sets or ():
        kept, pod = keeps_away(one, node), pod_of(one, found.pods)
        if pod is not None:
            if broken := not_running(pod):
                yield _of(one, f"has pod {pod.name} that is not running ({broken})", pod=pod.name)
        elif kept and (not kept.expressions or _concerns(one, kept, resource)):
            yield _of(one, described(kept, node, startup), kept)
        elif not kept:
            yield _of(one, "has no pod on the Node")


def _missing_jobs(jobs: Sequence[Job], node: Node, startup: Sequence[Taint]) -> Iterator[Missing]:
    for one in jobs:
        kept, spec = keeps_away(one, node), one.spec.template.spec
        pinned = bool(selected_keys(spec.node_selector, spec.affinity) - COMMON)
        named = one.metadata.labels.get(NODE_LABEL) == node.name
        waits = one.status.active > one.status.ready
        if one.ended or one.spec.suspend or not waits or not kept:
            continue
        if named or not kept.expressions:
            yield _of(one, described(kept, node, startup) + ("" if pinned or named else _ELSEWHERE), kept)


_ELSEWHERE = "; its pod may run on another Node"


def _concerns(daemon_set: DaemonSet, kept: KeptAway, resource: str) -> bool:
    """Whether a DaemonSet that does not select the Node is about its GPUs."""
    vendor = vendor_of(resource)
    if vendor is None or any(one.key in COMMON for one in kept.expressions):
        return False
    spec = daemon_set.spec.template.spec
    return any(map(vendor.words.search, (daemon_set.metadata.name, *(one.image for one in spec.containers))))


def _of(workload: Workload, problem: str, kept: KeptAway | None = None, pod: str = "") -> Missing:
    return Missing(
        kind=workload.kind,
        namespace=workload.metadata.namespace,
        name=workload.metadata.name,
        problem=problem,
        pod=pod,
        tolerations=tuple(_added(one) for one in missing_tolerations(kept)) if kept is not None else (),
        add_to=place_of(workload),
    )


def _added(one: Toleration) -> AddedToleration:
    return AddedToleration(key=one.key, operator=one.operator, value=one.value, effect=one.effect)
