"""Unverified behavior of AKS: with each variant claims get their machines and are removed.

Source: docs/references/agent-pools.md#unverified-behavior.
"""

from typing import Any

import pytest

from controllers.model.policy import Policy
from provisioner.simulator.azure.settings import AzureSettings
from tests.world.claims import ready
from tests.world.harness import Sim, node_claim, simulate

NAMES = ("gpu0", "gpu1", "gpu2")
ANSWERS: dict[str, dict[str, Any]] = {
    "one operation at a time": {"parallel_operations": 1},
    "unknown members are refused": {"unknown_members": "reject"},
    "Retry-After on accepted writes": {"accepted_retry_after_seconds": 15},
    "another code past the cap": {"pool_limit_code": "AgentPoolCountExceeded", "max_agent_pools": 3},
    "quota checked before": {"quota_check": "preflight", "family_cores": {"StandardNCADSA100v4Family": 48}},
    "quota checked after": {"quota_check": "operation", "family_cores": {"StandardNCADSA100v4Family": 48}},
}


@pytest.mark.matrix(quick=3)
@pytest.mark.parametrize("settings", ANSWERS.values(), ids=ANSWERS)
def test_claims_come_and_go(settings: dict[str, Any]) -> None:
    """Each becomes Ready when there is capacity, the others state why they wait, and nothing is left."""
    azure = AzureSettings(create_seconds=(60.0, 90.0), delete_seconds=(30.0, 60.0), **settings)

    async def story(sim: Sim) -> None:
        # Beyond the cluster's own limit, so that AKS itself refuses.
        await sim.start_controller(policy=Policy(max_agent_pools=10))
        for name in NAMES:
            await sim.apply(node_claim(name))
        for _ in NAMES:
            await sim.until(lambda: up(sim), 1800, "the next claim is Ready")
            first = up(sim)[0]
            await ready(sim, first)
            await sim.delete_claim(first)
            await sim.until(lambda first=first: sim.claim(first) is None, 900, f"{first} is gone")  # type: ignore[misc]
        await sim.settled()
        assert sorted(sim.cloud.pools) == ["system", "theirs"]

    simulate(story, azure=azure)


def up(sim: Sim) -> list[str]:
    """The claims that are Ready, in the order of their names."""
    return [name for name in NAMES if sim.condition(name, "Ready") == "True"]
