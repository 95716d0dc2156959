"""Grace periods and times that no arithmetic of dates holds: a removal ends whatever its pods and annotations say."""

import pytest

from provisioner.api import labels
from tests.world.harness import Sim, simulated
from tests.world.main_job import NAME
from tests.world.transcript import FAST, node_name, pool_calls, run_pod, strip

from .common import slow, up, up_with

HOUR = 3600.0
NEVER = 1e9  # for gc_bound_seconds: these stories assert when a pool is deleted, not only whether
ENDLESS = [9223372036854775807, 99_999_999_999]


def endless_pod(sim: Sim, seconds: int) -> None:
    """A running pod on the claim's Node with that grace period, which the API server accepts."""
    slow(sim, "endless", node_name(sim), seconds)


@pytest.mark.parametrize("seconds", ENDLESS)
@simulated(azure=FAST)
async def test_a_pod_with_an_endless_grace_period_does_not_outlast_the_claims(sim: Sim, seconds: int) -> None:
    """The claim grants its pods 5 minutes in all."""
    await up_with(sim, "5m")
    endless_pod(sim, seconds)
    await sim.delete_claim(NAME)
    await sim.until(lambda: pool_calls(sim, "DELETE"), HOUR, "the pool is deleted")


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59-23:00"])
@simulated(azure=FAST)
async def test_any_time_on_the_claim_lets_its_removal_end(sim: Sim, time: str) -> None:
    """Go's zero time, and times that `datetime` does not have. The one pod leaves when it is evicted."""
    await up(sim)
    run_pod(sim, "app", node_name(sim))
    await sim.request(
        "PATCH",
        f"/apis/karpenter.sh/v1/nodeclaims/{NAME}",
        {"metadata": {"annotations": {labels.TERMINATION_TIMESTAMP: time}}},
        content_type="application/merge-patch+json",
    )
    await sim.delete_claim(NAME)
    await sim.until(lambda: pool_calls(sim, "DELETE"), HOUR, "the pool is deleted")


@simulated(azure=FAST, gc_bound_seconds=NEVER)
async def test_an_orphans_pool_is_deleted_whatever_the_grace_of_its_pods(sim: Sim) -> None:
    """A user removes the claim's finalizer; the drain of an orphan has a deadline of its own."""
    await up(sim)
    endless_pod(sim, ENDLESS[0])
    strip(sim, NAME)
    await sim.until(lambda: NAME not in sim.cloud.pools, 6 * HOUR, "the pool is deleted")


@simulated(azure=FAST, gc_bound_seconds=NEVER)
async def test_a_repair_ends_whatever_the_grace_of_the_pods(sim: Sim) -> None:
    """The Node's kubelet is silent, and its claim grants no period: the limit of the repair's drain applies."""
    await up(sim)
    endless_pod(sim, ENDLESS[0])
    sim.nodes.set_ready(node_name(sim), None)
    await sim.until(lambda: pool_calls(sim, "DELETE"), 24 * HOUR, "the pool is deleted")
