"""`schedule`: places pods offline and prints which machines would be bought, at which price, and why.

If no pod is pending, it prints the machines that exist.

Reads NodePools, Pods, Nodes and NodeClaims from manifests. Exit codes: 0 every pod has a place, 1 a pod stays pending,
2 the input cannot be used. With `--json-lines` each line of standard input is a scenario with instance types and prices
of its own, and each is answered by one line before the next one is read. `schedule_disrupt` answers `--disrupt`.
"""

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TextIO

import msgspec

from cloudprovider.cloud import Cloud
from cloudprovider.interface import SPOT
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.nodepools import with_capacity_type
from controllers.provisioning.price_messages import usd_per_hour
from controllers.provisioning.solver.solver import solve
from provisioner.api import labels

from . import schedule_disrupt
from .console import Console, counted, table
from .explain_answer import SPOT_UNKNOWN, prices_of
from .refusal import FAILED, OK, USAGE, Refused
from .schedule_codec import DecisionOutput, NewNodeClaim, Scenario, fleet_of, output, snapshot
from .schedule_fleet import fleet_lines
from .schedule_input import Objects, answer, unusable


def run(wanted: argparse.Namespace, cloud: Cloud, typed: TextIO, console: Console) -> int:
    """Place the pods and print the result; returns the exit code. Raises Refused."""
    if wanted.disrupt:
        return schedule_disrupt.run(wanted, cloud, typed, console)
    decided = answer(
        wanted,
        typed,
        console,
        cloud,
        scenario=partial(_scenario, wanted, cloud, console),
        decide=_decide,
        report=_report,
    )
    return FAILED if decided is not None and decided.errors else OK


def _decide(scenario: Scenario, types: InstanceTypes) -> DecisionOutput:
    found = snapshot(scenario, types)
    start = time.perf_counter()
    decision = solve(found.snapshot)
    micros = int((time.perf_counter() - start) * 1_000_000)
    decided = output(found.snapshot, decision, found.errors, micros)
    pending = found.snapshot.pods or found.errors
    return decided if pending else msgspec.structs.replace(decided, fleet=fleet_of(scenario, types))


def _scenario(wanted: argparse.Namespace, cloud: Cloud, console: Console, found: Objects) -> Scenario:
    """The objects of the manifests, without instance types; the console shows which NodePools are not used."""
    if not (found.pods or found.machines):
        kinds = f" ({', '.join(sorted(found.ignored))} read)" if found.ignored else ""
        cause, remedy = (
            f"{', '.join(wanted.filename)}: no Pod and no Node found{kinds}",
            "Name manifests of these kinds.",
        )
        raise Refused(cause, remedy, USAGE)
    left_out = {pool.name: why for pool, why in unusable(found.pools, found.classes, cloud)}
    console.err.writelines(f"warning: NodePool {name} is not used: {why}\n" for name, why in left_out.items())
    return Scenario(
        node_pools=tuple(with_capacity_type(pool) for pool in found.pools if pool.name not in left_out),
        nodes=found.nodes,
        pods=found.pending,
        daemon_pods=found.daemon_pods,
        node_classes=tuple(found.classes.values()),
        namespaces=tuple(found.namespaces),
    )


def _report(decided: DecisionOutput, region: str, types: InstanceTypes) -> Iterator[str]:
    if decided.fleet is not None:
        yield from fleet_lines(decided.fleet, region, types)
    claims, prices = decided.new_node_claims, types.cloud.list_prices(region)
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
        known = [claim.price for claim in claims if claim.price is not None]
        unknown = len(claims) - len(known)
        yield from _alternatives(claims)
        yield ""
        if known or prices.on_demand:
            without = f", without {unknown} whose price is unknown" if unknown else ""
            new = counted(len(claims), "new machine")
            yield f"{new}, {usd_per_hour(sum(known))}{without} ({prices_of(region, types)})"
        else:
            yield f"{counted(len(claims), 'new machine')} ({region} has no list prices)"
        if known and any(SPOT in _capacity_types(claim) for claim in claims) and not prices.spot:
            yield SPOT_UNKNOWN
    for node, pods in sorted(decided.existing.items()):
        yield f"{node} has room for {_listed(pods)}"
    for pod, why in sorted(decided.errors.items()):
        yield f"{pod} stays pending: {why}"


def _alternatives(claims: Iterable[NewNodeClaim]) -> Iterator[str]:
    """What machines could be instead, once for those of which it is the same."""
    for size, others in dict.fromkeys((claim.instance_types[0], claim.alternatives) for claim in claims):
        if others:
            rows = [(one.instance_type, _price(one.price), one.why) for one in others]
            yield ""
            yield from table((f"INSTEAD OF {size}", "USD/H", "WHY NOT"), rows)


def _capacity_types(claim: NewNodeClaim) -> tuple[str, ...]:
    """In the order in which they are requested at equal prices."""
    found = next((one.values for one in claim.requirements if one.key == labels.CAPACITY_TYPE), ())
    return tuple(sorted(found, reverse=True))


def _price(price: float | None) -> str:
    return "unknown" if price is None else f"{price:.3f}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
