"""The table of metric families is exactly what a running program exposes."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from controllers.model.policy import Policy
from provisioner.metrics.observers.label_values import NAMES_MAX
from provisioner.runtime.metrics import Metrics
from provisioner.simulator.azure import faults
from provisioner.simulator.azure.settings import AzureSettings
from tests.world.harness import SIZE, Sim, node_claim, simulated
from tests.world.metric_samples import BY_NAME, Numbers, declared
from tests.world.transcript import strip

CLAIMS, WAVE = 200, 50
# Of each claim: five conditions twice, five resources of its Node, and what else bears its name.
SERIES_OF_A_CLAIM = 25
# Counters and histograms of everything that can happen, however many claims it happens to. Each of the ten NodePools
# that are named has about 140 more once a machine of it was Ready and removed; which of them are is by chance.
SERIES_OF_THE_PROCESS = 2300 + 140 * NAMES_MAX
FAST_AND_ROOMY = AzureSettings(
    create_seconds=(20.0, 40.0), delete_seconds=(10.0, 20.0), max_agent_pools=250, throttle=False, arm_throttle=False
)


def series(numbers: Numbers) -> int:
    """The number of series."""
    return sum(len(family.samples) for family in numbers.families())


@simulated()
async def test_every_family_is_declared_and_every_declared_one_exposed(sim: Sim) -> None:
    """With the types and labels of the table; every declared family is exposed."""
    numbers = Numbers()
    numbers.metrics = Metrics(process=True)
    await sim.start_controller(metrics=numbers.metrics)
    await sim.apply(node_claim("one"))
    await asyncio.sleep(600)
    seen = set()
    for exposed in numbers.families():
        family = declared(exposed.name)
        seen.add(family.name)
        assert exposed.type == ("unknown" if family.kind == "untyped" else family.kind), family.name
        assert exposed.documentation == family.help or family.name.startswith(("python_", "process_"))
        for sample in exposed.samples:
            assert set(sample.labels) - {"le", "quantile"} == set(family.labels), family.name
    assert seen == set(BY_NAME)


def strange(number: int) -> dict[str, Any]:
    """A claim with unusual names and sizes of its own; every fourth one can be launched."""
    size = SIZE if number % 4 == 0 else f"Standard_NC{number}_nobody_v{number}"
    mine = {"karpenter.sh/nodepool": f"pool-{number}", "kaito.sh/kaitonodeclass": f"class-{number}"}
    return node_claim(f"c{number}", size=size, labels=mine)


@pytest.mark.matrix(quick=0)
@simulated(azure=FAST_AND_ROOMY)
async def test_two_hundred_strange_claims_leave_no_series_behind(sim: Sim) -> None:
    """User-defined sizes, NodePools and classes have no series of their own; deleted objects have none."""
    numbers = Numbers()
    sim.cloud.faults += [faults.quota(times=5), faults.capacity(times=5)]
    await sim.start_controller(metrics=numbers.metrics, policy=Policy(max_agent_pools=240))
    most = 0
    for wave in range(0, CLAIMS, WAVE):
        names = [f"c{number}" for number in range(wave, wave + WAVE)]
        for number in range(wave, wave + WAVE):
            await sim.apply(strange(number))
        await asyncio.sleep(400)
        most = max(most, series(numbers))
        for name in names[:2]:
            strip(sim, name)
        for name in names[2:]:
            await sim.delete_claim(name)
        await asyncio.sleep(600)
    assert not [name for name in (f"c{n}" for n in range(CLAIMS)) if numbers.about(name)]
    reported = Counter(family.name for family in numbers.families() for _ in family.samples)
    assert sum(reported.values()) <= SERIES_OF_THE_PROCESS, reported.most_common(8)
    assert most <= SERIES_OF_THE_PROCESS + WAVE * SERIES_OF_A_CLAIM
    assert numbers.total("karpenter_nodeclaims_created_total") == CLAIMS
    assert numbers.total("karpenter_nodeclaims_created_total", nodepool="other") == CLAIMS - NAMES_MAX
    assert numbers.total("gpu_provisioner_observation_errors_total") == 0
    assert not numbers.undeclared()
