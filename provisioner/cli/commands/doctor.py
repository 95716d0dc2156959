"""`doctor`: why Nodes lack their GPUs, and which DaemonSets and Jobs their taints keep away.

Reads the API server directly, in few requests, and writes nothing; Azure is not needed. Exit codes: 0 every Node has
its GPUs, 1 refused or failed, 2 invalid usage, 3 a Node lacks GPUs or is not initialized.
"""

import argparse
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from cloudprovider.cloud import Cloud
from controllers.actuator.kept import on_node, unbound
from controllers.model.diagnosis import Workloads
from controllers.model.facts import Facts
from controllers.model.ownership import belongs, managed
from controllers.model.policy import Policy
from controllers.node.health.diagnosis import lacks_pod
from controllers.nodeclaim.lifecycle import dra
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass, is_own
from provisioner.api.pod import Pod
from provisioner.api.resourceslice import ResourceSlice
from provisioner.api.workload import Job
from provisioner.cli.output import encoded
from provisioner.operator.clients import open_kube
from provisioner.operator.config import policy_from
from provisioner.runtime.clock import Clock, SystemClock
from provisioner.runtime.kept import whole
from provisioner.runtime.kube import Kube
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.resources import (
    DAEMONSETS,
    JOBS,
    NODECLAIMS,
    NODECLASSES,
    NODES,
    PODS,
    RESOURCESLICES,
)
from provisioner.settings import Settings

from .console import Console
from .doctor_report import Machine, Report, is_open, lines, machine, source_of
from .refusal import OK, Refused, by_api_server

CLOSED = 3
# The pods of more Nodes than this are read in one LIST.
SEPARATE_READS = 5
SCHEDULED = "spec.nodeName!="


async def connect(settings: Settings, cloud: Cloud, wanted: argparse.Namespace, console: Console) -> int:
    """Report on the cluster of the settings, which need nothing of Azure; returns the exit code. Raises Refused."""
    async with open_kube(settings) as kube:
        return await run(kube, policy_from(settings), SystemClock(), wanted, console, cloud=cloud)


async def run(
    kube: Kube, policy: Policy, clock: Clock, wanted: argparse.Namespace, console: Console, *, cloud: Cloud
) -> int:
    """Print the report; returns the exit code. Raises Refused."""
    try:
        found = await _report(kube, policy, clock, wanted.name, console, cloud=cloud)
    except KubeError as error:
        raise by_api_server(error) from None
    if wanted.output == "table":
        console.print(*lines(found))
    else:
        console.print(encoded(found, wanted.output))
    return OK if all(one.ready for one in found.machines) else CLOSED


async def _report(kube: Kube, policy: Policy, clock: Clock, name: str, console: Console, *, cloud: Cloud) -> Report:
    claims = tuple(
        one for one in (await kube.list(NODECLAIMS, digest=whole)).items if managed(one) and not one.deleting
    )
    nodes = (await kube.list(NODES, digest=whole)).items
    classes = await _classes(kube, claims)
    slices = await _slices(kube, claims, classes)
    known = (_facts(one, nodes, classes, policy, clock, cloud=cloud) for one in claims)
    machines = [msgspec.structs.replace(one, slices=slices) for one in known]
    chosen = [_named(name, machines)] if name else [one for one in machines if one.node and not is_open(one)]
    pods = await _pods(kube, [node.name for one in chosen if (node := one.node) is not None])
    daemon_sets = (await kube.list(DAEMONSETS, digest=whole)).items if pods else ()
    jobs = await _jobs(kube, console) if pods else ()
    made, pending = list[Machine](), None
    for one in chosen:
        node = one.node
        found = Workloads(since=clock.now(), daemon_sets=daemon_sets, pods=pods.get(node.name, ()) if node else ())
        if node is not None and lacks_pod(node, source_of(one), found):
            if pending is None:
                pending = (await kube.list(PODS, digest=unbound, field_selector="spec.nodeName=")).items
            found = msgspec.structs.replace(found, unbound=pending)
        made.append(machine(one, found, jobs))
    without_node = sum(one.node is None for one in machines)
    return Report(machines=tuple(made), ready=sum(map(is_open, machines)), without_node=without_node)


def _named(name: str, machines: list[Facts]) -> Facts:
    """The machine of the NodeClaim or of the Node with this name. Raises Refused."""
    for one in machines:
        node = one.node
        if name in (one.claim.name if one.claim is not None else "", node.name if node is not None else ""):
            return one
    cause = f"no NodeClaim of this controller, and no Node of one, is named {name}"
    raise Refused(cause, "kubectl get nodeclaims -o wide lists them.")


def _facts(
    claim: NodeClaim,
    nodes: tuple[Node, ...],
    classes: Mapping[str, AgentPoolNodeClass],
    policy: Policy,
    clock: Clock,
    *,
    cloud: Cloud,
) -> Facts:
    own, reference = tuple(one for one in nodes if belongs(one, claim)), claim.spec.node_class_ref
    sizes = (meta.labels.get(labels.INSTANCE_TYPE, "") for meta in (*(one.metadata for one in own), claim.metadata))
    return Facts(
        key=cloud.pool_name(claim),
        now=clock.now(),
        policy=policy,
        claims=(claim,),
        nodes=own,
        gpus=cloud.gpus_of(next(filter(None, sizes), "")),
        node_class=classes.get(reference.name) if is_own(reference) else None,
    )


async def _slices(
    kube: Kube, claims: Iterable[NodeClaim], classes: Mapping[str, AgentPoolNodeClass]
) -> tuple[ResourceSlice, ...] | None:
    """All ResourceSlices, if a machine needs them; None if none does, or the API server does not serve them."""
    if not any(dra.publishes_gpus(one) for one in classes.values()) and not any(map(dra.needs_slices, claims)):
        return None
    try:
        return (await kube.list(RESOURCESLICES, digest=whole)).items
    except KubeError as error:
        if not error.not_found:
            raise
        return None


async def _classes(kube: Kube, claims: Iterable[NodeClaim]) -> Mapping[str, AgentPoolNodeClass]:
    if not any(is_own(one.spec.node_class_ref) for one in claims):
        return {}
    return {one.name: one for one in (await kube.list(NODECLASSES, digest=whole)).items}


async def _jobs(kube: Kube, console: Console) -> tuple[Job, ...]:
    """The Jobs of the cluster; none if they may not be read, which is reported."""
    try:
        return (await kube.list(JOBS, digest=whole)).items
    except KubeError as error:
        if error.status != 403:
            raise
        console.err.write(f"warning: Jobs are left out: {error}\n")
        return ()


async def _pods(kube: Kube, names: Sequence[str]) -> Mapping[str, tuple[Pod, ...]]:
    """The pods on each of these Nodes."""
    if len(names) <= SEPARATE_READS:
        return {
            name: (await kube.list(PODS, digest=on_node, field_selector=f"spec.nodeName={name}")).items
            for name in names
        }
    found: dict[str, tuple[Pod, ...]] = dict.fromkeys(names, ())

    def of_these(pod: Pod) -> Pod | None:
        return on_node(pod) if pod.spec.node_name in found else None

    for pod in (await kube.list(PODS, digest=of_these, field_selector=SCHEDULED)).items:
        found[pod.spec.node_name] += (pod,)
    return found
