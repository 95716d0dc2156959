"""Least privilege in Azure: the shipped role has the actions that a claim's life uses; ARM refuses all others."""

import asyncio
import dataclasses
import re

import pytest
import structlog.testing

from provisioner.simulator.azure.routing import ACTIONS
from tests.world.azure_role import AZURE_ACTIONS, CHART, used_actions
from tests.world.claims import ready
from tests.world.demand import node_class, node_pool, pod
from tests.world.harness import Sim, Story, node_claim, simulate
from tests.world.main_job import NAME
from tests.world.transcript import FAST, claim_condition

LIFE_SECONDS = 900.0
# The right to read the sizes is that of another role, also optional.
IMAGES, SKUS = ACTIONS["UPGRADE_PROFILE"], ACTIONS["SKUS"]
WORDS = "does not have authorization to perform action"


async def a_life(sim: Sim) -> None:
    """A claim becomes Ready, is deleted and removed."""
    await sim.start_controller()
    await sim.apply(node_claim(NAME))
    await ready(sim, NAME)
    await sim.delete_claim(NAME)
    await sim.until(lambda: sim.claim(NAME) is None, LIFE_SECONDS, "the claim is gone")


async def a_life_of_a_node_pool(sim: Sim) -> None:
    """The machine of a NodePool becomes Ready, its image is compared, and it is removed."""
    await sim.apply(node_class())
    await sim.apply(node_pool(replicas=1))
    await sim.start_controller()
    await ready(sim, "gpu-1")
    await sim.until(lambda: sim.cloud.counts["UPGRADE_PROFILE"], LIFE_SECONDS, "the newest image is read")
    sim.store.patch("nodepools.karpenter.sh", "gpu", {"spec": {"replicas": 0}})
    await sim.until(lambda: sim.claim("gpu-1") is None, LIFE_SECONDS, "the claim is gone")


@pytest.mark.parametrize(
    ("story", "unused"), [(a_life, {IMAGES}), (a_life_of_a_node_pool, set())], ids=["of a claim", "of a NodePool"]
)
def test_a_life_uses_all_of_the_role_and_nothing_else(story: Story, unused: set[str]) -> None:
    """The actions used in a life are exactly those of the role; images are read for NodePools only."""
    report = simulate(story, azure=FAST)
    used = used_actions(report.world.cloud.request_log) - {SKUS}
    assert used == AZURE_ACTIONS - unused, f"used {sorted(used)}, granted {sorted(AZURE_ACTIONS)}"


@pytest.mark.parametrize(("missing", "condition"), [("write", "Launched"), ("delete", "InstanceTerminating")])
def test_a_missing_azure_permission_is_reported_on_the_claim(missing: str, condition: str) -> None:
    """The claim states ARM's refusal and waits; it continues once the action is granted."""
    action = f"Microsoft.ContainerService/managedClusters/agentPools/{missing}"

    async def story(sim: Sim) -> None:
        await sim.start_controller()
        await sim.apply(node_claim(NAME))
        if missing == "delete":
            await ready(sim, NAME)
            await sim.delete_claim(NAME)
        await sim.until(
            lambda: "AuthorizationFailed" in claim_condition(sim, condition)[2], LIFE_SECONDS, "the condition is set"
        )
        sim.cloud.configure(actions=AZURE_ACTIONS)
        if missing == "write":
            await ready(sim, NAME)
            await sim.delete_claim(NAME)
        await sim.until(lambda: sim.claim(NAME) is None, 2 * LIFE_SECONDS, "the claim is gone")

    assert action in AZURE_ACTIONS
    simulate(story, azure=dataclasses.replace(FAST, actions=AZURE_ACTIONS - {action}))


def test_the_role_file_that_is_named_has_the_missing_permission() -> None:
    """Without the optional role, the log names its file for what only that role grants."""

    async def story(sim: Sim) -> None:
        await sim.apply(node_class())
        await sim.apply(node_pool())
        await sim.apply(pod("p"))
        await sim.start_controller()
        await asyncio.sleep(30)

    with structlog.testing.capture_logs() as lines:
        simulate(story, azure=dataclasses.replace(FAST, actions=AZURE_ACTIONS))
    found = {text for line in lines if "missing permission" in (text := str(line.get("error", "")))}
    missing = {match[1] for text in found if (match := re.search(r"missing permission ([a-z/]+)", text))}
    assert missing == {"skus/read", "usages/read"}, found
    for text in found:
        action = re.search(r"missing permission ([a-z/]+)", text)
        assert action is not None
        (name,) = re.findall(r"[a-z-]*role\.json", text)
        assert f'{action[1]}"' in (CHART / name).read_text(), text
        assert "at the subscription" in text
