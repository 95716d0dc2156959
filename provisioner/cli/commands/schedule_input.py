"""The input of scheduling decisions, objects in manifests with the sizes and prices of their region, and the answer.

Without a cluster, NodePools have no conditions: `unusable` and `foreign` state which would not be used. Without a node
class in the manifests, the classes are assumed to exist.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO, TypeVar

import msgspec

from cloudprovider.cloud import Cloud
from controllers.nodeclass.validation import errors as class_errors
from controllers.nodepool.nodepool import errors, is_ours
from controllers.provisioning.instances import InstanceTypeCache, InstanceTypes
from controllers.provisioning.nodepools import provisions, why_unusable
from provisioner.api import labels
from provisioner.api.namespace import Namespace
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodeoverlay import NodeOverlay
from provisioner.api.nodepool import NodePool
from provisioner.api.pod import Pod
from provisioner.api.poddisruptionbudget import PodDisruptionBudget
from provisioner.api.workload import DaemonSet
from provisioner.cli.output import encoded
from provisioner.runtime.objects import KubeObject, key_of

from .console import Console
from .manifests import converted, documents
from .refusal import USAGE, Refused
from .schedule_codec import NodeInput, Scenario, types_of

LIMITS = "spec.limits"
NAME = re.compile("[a-z][a-z0-9]*")
REMEDY = "Correct the file; kubectl get NAME -o yaml prints an object as the API server has it."
D = TypeVar("D")


class Objects(msgspec.Struct, kw_only=True):
    """`nodes`: with their NodeClaims and pods. `classes`: the AgentPoolNodeClasses by name. `ignored`: other kinds."""

    pools: list[NodePool] = []
    classes: dict[str, AgentPoolNodeClass] = {}
    overlays: list[NodeOverlay] = []
    pods: list[Pod] = []
    daemon_sets: list[DaemonSet] = []
    namespaces: list[Namespace] = []
    budgets: list[PodDisruptionBudget] = []
    machines: dict[str, dict[str, Any]] = {}
    ignored: set[str] = set()

    @property
    def pending(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if not pod.spec.node_name)

    @property
    def daemon_pods(self) -> tuple[Pod, ...]:
        """A pod of each DaemonSet."""
        owners = ((one.metadata, one.spec.template) for one in self.daemon_sets)
        return tuple(
            Pod(metadata=msgspec.structs.replace(meta, labels=template.metadata.labels), spec=template.spec)
            for meta, template in owners
        )

    @property
    def nodes(self) -> tuple[NodeInput, ...]:
        bound: dict[str, list[Pod]] = {}
        for pod in self.pods:
            if pod.spec.node_name:
                bound.setdefault(pod.spec.node_name, []).append(pod)
        return tuple(
            NodeInput(**parts, pods=tuple(bound.get(name, ()))) for name, parts in sorted(self.machines.items())
        )


KINDS: Mapping[str, type[KubeObject]] = {
    "NodePool": NodePool,
    labels.NODECLASS_KIND: AgentPoolNodeClass,
    "NodeOverlay": NodeOverlay,
    "Pod": Pod,
    "DaemonSet": DaemonSet,
    "Namespace": Namespace,
    "PodDisruptionBudget": PodDisruptionBudget,
    "Node": Node,
    "NodeClaim": NodeClaim,
}


def _read(names: Sequence[str], typed: TextIO) -> Objects:
    """The objects of files and directories; the last one of a name counts. Raises Refused for an unreadable one."""
    found, objects = Objects(), dict[tuple[str, str], KubeObject]()
    for document in documents(names, typed):
        if document.error:
            raise Refused(f"{document.source}: {document.error}", REMEDY, USAGE)
        kind = str(document.body.get("kind") or "") if isinstance(document.body, dict) else ""
        if kind not in KINDS:
            found.ignored.add(kind or "no kind")
            continue
        try:
            one = _in_namespace(converted(document.body, KINDS[kind]))
        except msgspec.ValidationError as error:
            raise Refused(f"{document.source}: {error}", REMEDY, USAGE) from None
        if not one.metadata.name:
            raise Refused(f"{document.source}: it is no object with a name", REMEDY, USAGE)
        objects[kind, key_of(one)] = one
    for one in objects.values():
        _add(found, one)
    return found


def _in_namespace(found: KubeObject) -> KubeObject:
    """The object in the namespace in which kubectl creates it."""
    if found.metadata.namespace or not isinstance(found, Pod | DaemonSet | PodDisruptionBudget):
        return found
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, namespace="default"))


def check_region(region: str | None) -> None:
    """Raises Refused for what cannot be the name of a region."""
    if region is not None and not NAME.fullmatch(region):
        remedy = "Use the name that az account list-locations prints, such as westeurope or usgovvirginia."
        raise Refused(f"--region {region!r} is not the name of a region", remedy, USAGE)


def _region_of(scenario: Scenario, cloud: Cloud) -> str:
    """The region of the Nodes, or else of the zones that Nodes have and that Pods and NodePools require.

    The default of the cloud if there is not exactly one.
    """
    named = (one.node.metadata.labels.get(labels.REGION) for one in scenario.nodes or () if one.node is not None)
    if len(stated := {*filter(None, named)}) == 1:
        return stated.pop()
    zones = [pod.spec.node_selector.get(labels.ZONE, "") for pod in scenario.pods or ()]
    zones += [one.node.metadata.labels.get(labels.ZONE, "") for one in scenario.nodes or () if one.node is not None]
    for pool in scenario.node_pools or ():
        required = (one for one in pool.spec.template.spec.requirements if one.key == labels.ZONE)
        zones += [zone for one in required for zone in one.values]
    found = {*filter(None, map(cloud.region_of, zones))}
    return found.pop() if len(found) == 1 else cloud.default_region


def _add(found: Objects, one: KubeObject) -> None:
    match one:
        case NodePool():
            found.pools.append(one)
        case AgentPoolNodeClass():
            found.classes[one.name] = one
        case NodeOverlay():
            found.overlays.append(one)
        case Pod():
            found.pods.append(one)
        case DaemonSet():
            found.daemon_sets.append(one)
        case Namespace():
            found.namespaces.append(one)
        case PodDisruptionBudget():
            found.budgets.append(one)
        case Node():
            found.machines.setdefault(one.name, {})["node"] = one
        case NodeClaim():
            found.machines.setdefault(one.status.node_name or one.name, {})["node_claim"] = one


def answer(
    wanted: argparse.Namespace,
    typed: TextIO,
    console: Console,
    cloud: Cloud,
    *,
    scenario: Callable[[Objects], Scenario],
    decide: Callable[[Scenario, InstanceTypes], D],
    report: Callable[[D, str, InstanceTypes], Iterable[str]],
) -> D | None:
    """Decide about the manifests and print it, or about each line with `--json-lines`, of which nothing is returned.

    `report`: the lines for people, with the region and its instance types. Raises Refused.
    """
    if wanted.json_lines:
        _answer_lines(cloud, decide, typed, console)
        return None
    if not wanted.filename:
        raise Refused("no manifests", "Name files with -f, or read scenarios with --json-lines.", USAGE)
    check_region(wanted.region)
    objects = _read(wanted.filename, typed)
    found = scenario(objects)
    region = wanted.region or _region_of(found, cloud)
    if not cloud.list_prices(region).on_demand:
        console.err.write(
            f"warning: no list prices of {region} are known: sizes are compared by their prices in other regions, and"
            " all are taken to be offered there\n"
        )
    pools = found.node_pools or ()
    types = InstanceTypeCache(cloud, overlays=lambda: objects.overlays, pools=lambda: pools).in_region(region)
    for name, why in sorted(types.overlaid.unused.items()):
        console.err.write(f"warning: NodeOverlay {name} is not used: {why.message}\n")
    try:
        decided = decide(found, types)
    except ValueError as error:
        raise Refused(str(error), REMEDY, USAGE) from None
    for_people = wanted.output == "table"
    console.print(*(report(decided, region, types) if for_people else [encoded(decided, wanted.output)]))
    return decided


def _answer_lines(
    cloud: Cloud, decide: Callable[[Scenario, InstanceTypes], object], typed: TextIO, console: Console
) -> None:
    """Answer each scenario, a line of JSON each, before the next one is read. Raises Refused."""
    decoder, encoder = msgspec.json.Decoder(Scenario), msgspec.json.Encoder()
    for number, line in enumerate(typed, start=1):
        if not line.strip():
            continue
        try:
            scenario = decoder.decode(line)
            decided = decide(scenario, types_of(scenario, cloud))
        except (msgspec.DecodeError, ValueError) as error:
            raise Refused(
                f"standard input, line {number}: {error}", "Write one scenario as JSON on each line.", USAGE
            ) from None
        console.out.write(encoder.encode(decided).decode() + "\n")
        console.out.flush()


def unusable(
    pools: Sequence[NodePool], classes: Mapping[str, AgentPoolNodeClass], cloud: Cloud
) -> Iterator[tuple[NodePool, str]]:
    """The NodePools that are not used, each with the cause. `classes`: the AgentPoolNodeClasses read, by name."""
    for pool in pools:
        if why := _why(pool, classes, cloud):
            yield pool, why


def foreign(pools: Sequence[NodePool]) -> Iterator[tuple[NodePool, str]]:
    """The NodePools of other controllers, each with the cause."""
    for pool in pools:
        if why := _why_foreign(pool):
            yield pool, why


def _why(pool: NodePool, classes: Mapping[str, AgentPoolNodeClass], cloud: Cloud) -> str:
    if why := _why_foreign(pool):
        return why
    reference = pool.spec.template.spec.node_class_ref
    if classes and reference.name not in classes:
        return f"AgentPoolNodeClass {reference.name} is not among the manifests; add it, or correct nodeClassRef.name"
    node_class = classes.get(reference.name)
    refused = next(class_errors(node_class.spec), None) if node_class is not None else None
    if refused is not None:
        return f"AgentPoolNodeClass {reference.name}: {refused}"
    # An invalid limit is an error of the input; any other error only makes this NodePool unusable, as it is not Ready.
    wrong = next((error for error in errors(pool, cloud) if not error.field.startswith(LIMITS)), None)
    if wrong is not None:
        return str(wrong)
    if pool.spec.replicas is not None:
        return "spec.replicas determines its machines, not pods"
    return "" if provisions(pool) else why_unusable(pool)


def _why_foreign(pool: NodePool) -> str:
    reference = pool.spec.template.spec.node_class_ref
    if reference.kind and not is_ours(pool):
        return f"another controller serves its node class {reference.kind}.{reference.group}"
    return ""
