"""Consolidation alone: how long one decision about a large cluster takes, and how much drawn clusters cost afterwards.

Prices and sizes are those of eastus. Each drawn cluster is consolidated pass after pass until nothing changes.
"""

import random
import time
from collections.abc import Callable
from itertools import islice, repeat

import msgspec

from cloudprovider.azure.cloud import AksCloud
from controllers.disruption.command import Evaluation
from controllers.disruption.consolidation import consolidate
from provisioner.api.time import parse_rfc3339
from provisioner.cli.commands.schedule_codec import Scenario, one_pass, types_of
from tests.oracle.disruption_cluster import apply, price
from tests.oracle.disruption_scenarios import NOW, draw
from tests.unit.controllers.disruption.fleet import A100_8, D4, D8, D16, T4_16, T4_64, Fleet, pool

from .figures import Figure

MACHINES, PODS = 1_000, 5
REPEATS = 3
CLUSTERS, PASSES = 1_000, 30


def measure() -> list[Figure]:
    """About a minute."""
    return [
        _decision("nothing to save", lambda _: (D4, [(0.7, 0)] * PODS)),
        _decision("one machine to divide", lambda _: (T4_64, [(3.0, 1)] * 4 + [(3.0, 0)])),
        _decision("machines to remove", lambda rng: (rng.choice((D8, D16, T4_16)), _pods(rng))),
        _decision("every simulation in vain", lambda rng: (A100_8, [(round(rng.uniform(1, 9), 3), 1)] * 8)),
        _fleet_price(),
    ]


def _pods(rng: random.Random) -> list[tuple[float, int]]:
    return [(round(rng.uniform(0.1, 1.5), 1), 0) for _ in range(PODS)]


def _decision(name: str, drawn: Callable[[random.Random], tuple[str, list[tuple[float, int]]]]) -> Figure:
    rng, fleet = random.Random(1), Fleet(pool(disruption={"budgets": [{"nodes": "10%"}]}))
    for number in range(MACHINES):
        fleet.add(f"node-{number:04}", *drawn(rng))
    view = fleet.view()
    took, found = [], Evaluation()
    for _ in range(REPEATS):
        began = time.process_time()
        found = consolidate(view)
        took.append(time.process_time() - began)
    removed = len(found.command.machines) if found.command is not None else 0
    return Figure(
        name=f"consolidation of {MACHINES:,} Nodes with {len(fleet.pods):,} pods: {name}",
        unit="s of CPU",
        labels=("",),
        target=(1.0,),
        measured=(min(took),),
        note=f"{found.solves} simulations, {removed} machines in the command; least of {REPEATS} decisions",
    )


def _fleet_price() -> Figure:
    now = parse_rfc3339(NOW)
    if now is None:
        raise ValueError(NOW)
    before = after = 0.0
    for seed in range(CLUSTERS):
        scenario = draw(seed, "consolidation")
        before += price(scenario)
        for _ in islice(repeat(None), PASSES):
            stated = msgspec.convert(scenario, Scenario)
            answer = msgspec.to_builtins(one_pass(stated, types_of(stated, AksCloud()), now))
            if not answer["commands"]:
                break
            scenario = apply(scenario, answer)
        after += price(scenario)
    return Figure(
        name=f"price of {CLUSTERS:,} drawn clusters before and after consolidation",
        unit="USD/h",
        labels=("before", "after"),
        measured=(before, after),
        note=f"{1 - after / before:.0%} less",
    )
