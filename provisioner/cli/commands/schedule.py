"""`schedule`: places pods offline and prints which machines would be bought, at which price, and why.

Reads NodePools, Pods, Nodes and NodeClaims from manifests. Exit codes: 0 every pod has a place, 1 a pod stays pending,
2 the input cannot be used. With `--json-lines` each line of standard input is a scenario with instance types and prices
of its own, and each is answered by one line before the next one is read.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import msgspec

from cloudprovider.azure import pricing
from cloudprovider.interface import SPOT
from controllers.provisioning.catalogue import instance_types
from controllers.provisioning.decisions import DecisionOutput, NewNodeClaim, output
from controllers.provisioning.nodepools import with_capacity_type
from controllers.provisioning.scenario import NodeInput, Scenario, snapshot
from controllers.provisioning.solver.solver import solve
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodepool import NodePool
from provisioner.api.schedulable import SchedulablePod
from provisioner.cli.output import encoded

from .console import Console
from .manifests import documents
from .refusal import FAILED, OK, USAGE, Refused
from .tables import counted, table
from .usable_pools import unusable

DEFAULT_REGION = "eastus"
REMEDY = "Correct the file; kubectl get NAME -o yaml prints an object as the API server has it."


def run(wanted: argparse.Namespace, typed: TextIO, console: Console) -> int:
    """Place the pods and print the result; returns the exit code. Raises Refused."""
    if wanted.json_lines:
        return _lines(typed, console)
    if not wanted.filename:
        raise Refused("no manifests", "Name files with -f, or read scenarios with --json-lines.", USAGE)
    if wanted.region is not None and wanted.region not in pricing.regions():
        raise Refused(
            f"--region {wanted.region!r}: no prices for this region",
            f"Use one of {', '.join(pricing.regions())}.",
            USAGE,
        )
    scenario = _scenario(wanted.filename, typed, console)
    region = wanted.region or _region(scenario)
    try:
        decided = _decide(_in_region(scenario, region))
    except ValueError as error:
        raise Refused(str(error), REMEDY, USAGE) from None
    for_people = wanted.output == "table"
    console.print(*(_report(decided, region) if for_people else [encoded(decided, wanted.output)]))
    return FAILED if decided.errors else OK


def _lines(typed: TextIO, console: Console) -> int:
    decoder, encoder = msgspec.json.Decoder(Scenario), msgspec.json.Encoder()
    for number, line in enumerate(typed, start=1):
        if not line.strip():
            continue
        try:
            decided = _decide(decoder.decode(line))
        except (msgspec.DecodeError, ValueError) as error:
            raise Refused(
                f"standard input, line {number}: {error}", "Write one scenario as JSON on each line.", USAGE
            ) from None
        console.out.write(encoder.encode(decided).decode() + "\n")
        console.out.flush()
    return OK


def _decide(scenario: Scenario) -> DecisionOutput:
    found, errors = snapshot(scenario)
    start = time.perf_counter()
    decision = solve(found)
    return output(decision, errors, int((time.perf_counter() - start) * 1_000_000))


def _region(scenario: Scenario) -> str:
    """The region of the zones of Nodes, and of those that Pods and NodePools require; the default if it is not one."""
    zones = [pod.spec.node_selector.get(labels.ZONE, "") for pod in scenario.pods or ()]
    zones += [one.node.metadata.labels.get(labels.ZONE, "") for one in scenario.nodes or () if one.node is not None]
    for pool in scenario.node_pools or ():
        required = (one for one in pool.spec.template.spec.requirements if one.key == labels.ZONE)
        zones += [zone for one in required for zone in one.values]
    found = {zone.rpartition("-")[0] for zone in zones}.intersection(pricing.regions())
    return found.pop() if len(found) == 1 else DEFAULT_REGION


def _in_region(scenario: Scenario, region: str) -> Scenario:
    types = instance_types(region)
    keys = {requirement.key for one in types for requirement in one.requirements}
    return msgspec.structs.replace(scenario, instance_types=types, well_known_labels=tuple(sorted(keys)))


def _scenario(names: Sequence[str], typed: TextIO, console: Console) -> Scenario:
    """The objects of the manifests, without instance types; the console shows which NodePools are not used."""
    pools: list[NodePool] = []
    classes: set[str] = set()
    pods: list[SchedulablePod] = []
    nodes: dict[str, dict[str, Any]] = {}
    ignored: set[str] = set()
    for document in documents(names, typed):
        if document.error:
            raise Refused(f"{document.source}: {document.error}", REMEDY, USAGE)
        kind = document.body.get("kind", "") if isinstance(document.body, dict) else ""
        try:
            match kind:
                case "NodePool":
                    pools.append(msgspec.convert(document.body, NodePool))
                case labels.NODECLASS_KIND:
                    classes.add(msgspec.convert(document.body, AgentPoolNodeClass).name)
                case "Pod":
                    pods.append(msgspec.convert(document.body, SchedulablePod))
                case "Node":
                    node = msgspec.convert(document.body, Node)
                    nodes.setdefault(node.name, {})["node"] = node
                case "NodeClaim":
                    claim = msgspec.convert(document.body, NodeClaim)
                    nodes.setdefault(claim.status.node_name or claim.name, {})["node_claim"] = claim
                case _:
                    ignored.add(kind or "no kind")
        except msgspec.ValidationError as error:
            raise Refused(f"{document.source}: {error}", REMEDY, USAGE) from None
    if not pods:
        read = f" ({', '.join(sorted(ignored))} read)" if ignored else ""
        raise Refused(f"{', '.join(names)}: no Pod found{read}", "Name manifests of kind Pod.", USAGE)
    left_out = {pool.name: why for pool, why in unusable(pools, classes)}
    console.err.writelines(f"warning: NodePool {name} is not used: {why}\n" for name, why in left_out.items())
    bound: dict[str, list[SchedulablePod]] = {}
    for pod in pods:
        if pod.spec.node_name:
            bound.setdefault(pod.spec.node_name, []).append(pod)
    return Scenario(
        node_pools=tuple(with_capacity_type(pool) for pool in pools if pool.name not in left_out),
        nodes=tuple(NodeInput(**parts, pods=tuple(bound.get(name, ()))) for name, parts in sorted(nodes.items())),
        pods=tuple(pod for pod in pods if not pod.spec.node_name),
    )


def _report(decided: DecisionOutput, region: str) -> Iterator[str]:
    claims = decided.new_node_claims
    rows = [
        (
            claim.node_pool,
            claim.instance_types[0],
            ",".join(_capacity_types(claim)),
            _price(claim.price),
            str(len(claim.pods)),
            _listed(claim.pods),
        )
        for claim in claims
    ]
    if rows:
        yield from table(("NODEPOOL", "TYPE", "CAPACITY", "USD/H", "PODS", "NAMES"), rows)
        known = sum(claim.price or 0.0 for claim in claims)
        yield ""
        source = f"list prices of {region}, {pricing.DATE}"
        yield f"{counted(len(claims), 'new machine')}, {known:.3f} USD an hour ({source})"
        if any(SPOT in _capacity_types(claim) for claim in claims) and not pricing.has_spot_prices(region):
            yield "Spot prices are not known: spot machines count with their price on demand, which they do not exceed."
    for node, pods in sorted(decided.existing.items()):
        yield f"{node} has room for {_listed(pods)}"
    for pod, why in sorted(decided.errors.items()):
        yield f"{pod} stays pending: {why}"


def _capacity_types(claim: NewNodeClaim) -> tuple[str, ...]:
    """In the order in which they are requested at equal prices."""
    found = next((one.values for one in claim.requirements if one.key == labels.CAPACITY_TYPE), ())
    return tuple(sorted(found, reverse=True))


def _price(price: float | None) -> str:
    return "unknown" if price is None else f"{price:.3f}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
