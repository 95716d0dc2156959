"""Grace periods and times that no arithmetic of dates holds: a removal ends whatever its pods and annotations say."""

import asyncio

import pytest

from provisioner.api import labels
from tests.world.harness import Sim, simulate
from tests.world.nodeclaim.test_main_job import NAME
from tests.world.transcript import FAST, claim_condition, node_name, pool_calls, run_pod, strip

from .test_draining import slow, up_with
from .test_termination import up

HOUR = 3600.0
NEVER = 1e9  # for gc_bound_seconds: these stories assert when a pool is deleted, not only whether
ENDLESS = [9223372036854775807, 99_999_999_999]


def endless_pod(sim: Sim, seconds: int) -> None:
    """A running pod on the claim's Node with that grace period, which the API server accepts."""
    slow(sim, "endless", node_name(sim), seconds)


@pytest.mark.parametrize("seconds", ENDLESS)
def test_a_pod_with_an_endless_grace_period_does_not_outlast_the_claims(seconds: int) -> None:
    """The claim grants its pods 5 minutes in all."""

    async def story(sim: Sim) -> None:
        await up_with(sim, "5m")
        endless_pod(sim, seconds)
        await sim.delete_claim(NAME)
        await asyncio.sleep(HOUR)
        assert pool_calls(sim, "DELETE"), f"after 1 h no DELETE of the pool: {claim_condition(sim, 'Drained')}"

    simulate(story, azure=FAST)


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59-23:00"])
def test_any_time_on_the_claim_lets_its_removal_end(time: str) -> None:
    """Go's zero time, and times that `datetime` does not have. The one pod leaves when it is evicted."""

    async def story(sim: Sim) -> None:
        await up(sim)
        run_pod(sim, "app", node_name(sim))
        await sim.request(
            "PATCH",
            f"/apis/karpenter.sh/v1/nodeclaims/{NAME}",
            {"metadata": {"annotations": {labels.TERMINATION_TIMESTAMP: time}}},
            content_type="application/merge-patch+json",
        )
        await sim.delete_claim(NAME)
        await asyncio.sleep(HOUR)
        assert pool_calls(sim, "DELETE"), f"after 1 h no DELETE of the pool: {claim_condition(sim, 'Drained')}"

    simulate(story, azure=FAST)


def test_an_orphans_pool_is_deleted_whatever_the_grace_of_its_pods() -> None:
    """A user removes the claim's finalizer; the drain of an orphan has a deadline of its own."""

    async def story(sim: Sim) -> None:
        await up(sim)
        endless_pod(sim, ENDLESS[0])
        strip(sim, NAME)
        await asyncio.sleep(6 * HOUR)
        assert NAME not in sim.cloud.pools, f"6 h later the pool exists, DELETEs {len(pool_calls(sim, 'DELETE'))}"

    simulate(story, azure=FAST, gc_bound_seconds=NEVER)


def test_a_repair_ends_whatever_the_grace_of_the_pods() -> None:
    """The Node's kubelet is silent, and its claim grants no period: the limit of the repair's drain applies."""

    async def story(sim: Sim) -> None:
        await up(sim)
        endless_pod(sim, ENDLESS[0])
        sim.nodes.set_ready(node_name(sim), None)
        await asyncio.sleep(24 * HOUR)
        assert pool_calls(sim, "DELETE"), "24 h after its Node stopped reporting, no DELETE of the pool"

    simulate(story, azure=FAST, gc_bound_seconds=NEVER)
