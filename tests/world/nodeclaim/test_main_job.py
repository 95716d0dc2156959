"""The main use: apply a NodeClaim, get a GPU node; delete it, and nothing is left."""

from tests.world.harness import simulate
from tests.world.main_job import create_and_delete


def test_claim_becomes_a_ready_gpu_node_and_goes_again() -> None:
    """A claim becomes Ready with its GPU and is removed in the order instance, Node, NodeClaim."""
    simulate(create_and_delete)
