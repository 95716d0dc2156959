"""Agent pools of KAITO's NodeClaims have the tags that an Azure Policy demands."""

from provisioner.api import labels
from tests.world.claims import ready
from tests.world.harness import Sim, node_claim, simulated
from tests.world.transcript import FAST


@simulated(azure=FAST)
async def test_the_pool_of_a_workspace_has_the_tags_of_all_pools(sim: Sim) -> None:
    """KAITO's NodeClaims cannot state tags: the setting of the controller does."""
    await sim.start_controller(tags={"cost-center": "42", labels.TAG_CLAIM_NAME: "forged"})
    await sim.apply(node_claim("ws1"))
    await ready(sim, "ws1")
    tags = sim.cloud.pools["ws1"].properties["tags"]
    assert (tags["cost-center"], tags[labels.TAG_CLAIM_NAME]) == ("42", "ws1")
