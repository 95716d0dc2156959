"""`schedule --disrupt`: prints which machines would be disrupted now, why, what it saves, and what keeps the others.

Reads NodePools, Nodes, NodeClaims, Pods, DaemonSets and PodDisruptionBudgets from manifests. Exit codes: 0 done,
whether or not a machine would be disrupted, 2 the input cannot be used. With `--json-lines` each line of standard input
is a scenario of `schedule --json-lines`, with `podDisruptionBudgets` and `now` besides, and is answered by one line.
"""

import argparse
import time
from collections.abc import Iterator
from functools import partial
from typing import TextIO

import msgspec

from cloudprovider.cloud import Cloud
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.nodepools import with_capacity_type
from controllers.provisioning.price_messages import usd_per_hour
from provisioner.runtime.clock import SystemClock

from .console import Console, counted, table
from .explain_answer import prices_of
from .refusal import OK, USAGE, Refused
from .schedule_codec import NewNodeClaim, PassOutput, Scenario, one_pass
from .schedule_input import Objects, answer, foreign


def run(wanted: argparse.Namespace, cloud: Cloud, typed: TextIO, console: Console) -> int:
    """Decide one pass and print it; returns the exit code. Raises Refused."""
    answer(
        wanted,
        typed,
        console,
        cloud,
        scenario=partial(_scenario, wanted, console),
        decide=_decide,
        report=_report,
    )
    return OK


def _decide(scenario: Scenario, types: InstanceTypes) -> PassOutput:
    start = time.perf_counter()
    decided = one_pass(scenario, types, scenario.now or SystemClock().now())
    return msgspec.structs.replace(decided, micros=int((time.perf_counter() - start) * 1_000_000))


def _scenario(wanted: argparse.Namespace, console: Console, found: Objects) -> Scenario:
    """The objects of the manifests, without instance types; the console shows which NodePools are not used."""
    if not any("node_claim" in one for one in found.machines.values()):
        raise Refused(f"{', '.join(wanted.filename)}: no NodeClaim found", "Name manifests of kind NodeClaim.", USAGE)
    left_out = {pool.name: why for pool, why in foreign(found.pools)}
    console.err.writelines(f"warning: NodePool {name} is not used: {why}\n" for name, why in left_out.items())
    return Scenario(
        node_pools=tuple(with_capacity_type(pool) for pool in found.pools if pool.name not in left_out),
        nodes=found.nodes,
        pods=found.pending,
        node_classes=tuple(found.classes.values()),
        namespaces=tuple(found.namespaces),
        daemon_pods=found.daemon_pods,
        pod_disruption_budgets=tuple(found.budgets),
    )


def _report(decided: PassOutput, region: str, types: InstanceTypes) -> Iterator[str]:
    rows = [
        (one.reason, one.decision, ",".join(one.nodes), ",".join(map(_new, one.replacements)), f"{one.saving:.3f}")
        for one in decided.commands
    ]
    if rows:
        yield from table(("REASON", "DECISION", "NODES", "REPLACEMENTS", "USD/H"), rows)
        yield ""
        count = counted(sum(len(one.nodes) for one in decided.commands), "machine")
        saved = sum(one.saving for one in decided.commands)
        if saved or types.cloud.list_prices(region).on_demand:
            source = prices_of(region, types)
            yield f"{count} would be disrupted now, which saves {usd_per_hour(saved)} ({source})"
        else:
            yield f"{count} would be disrupted now ({region} has no list prices)"
    else:
        yield "No machine would be disrupted now."
    for node, why in sorted(decided.blocked.items()):
        yield f"{node} is kept: {why}"


def _new(claim: NewNodeClaim) -> str:
    return claim.instance_types[0]
