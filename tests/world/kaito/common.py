"""What the tests with KAITO share."""

import pytest

from tests.world.harness import SIZE, Sim
from tests.world.kaito_predicates import Owner

WORKSPACE = Owner(kind="workspace", name="phi", size=SIZE, storage="128Gi", labels={"apps": "phi"})
RAGENGINE = Owner(kind="ragengine", name="docs", size=SIZE, storage="128Gi", labels={"apps": "docs"})
OWNERS = pytest.mark.parametrize("owner", [WORKSPACE, RAGENGINE], ids=["Workspace", "RAGEngine"])


async def claim_deleted(sim: Sim, name: str) -> None:
    await sim.delete_claim(name)


async def pool_deleted(sim: Sim, name: str) -> None:
    sim.cloud.delete_pool_by_hand(name)
