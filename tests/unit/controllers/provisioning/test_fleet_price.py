"""The price of whole fleets at the list prices of eastus, for pods that ask for one to eight GPUs.

The prices of Karpenter are those of what its scheduler v1.14.1 plans for the same pods, sizes and prices.
"""

from collections import Counter
from typing import Any

import msgspec
import pytest

from controllers.provisioning.solver.model import Decision
from controllers.provisioning.solver.solver import solve
from provisioner.cli.commands.schedule_codec import Scenario, snapshot

from .observed import TYPES

GPU = "nvidia.com/gpu"
# One to eight GPUs: 2,000 GPUs for 1,000 pods.
MIXED = (1, 1, 1, 1, 1, 2, 2, 1, 2, 8)


def _pod(number: int, gpus: int) -> dict[str, Any]:
    """A pod that asks for 3 CPUs and 14 GiB beside each GPU."""
    requests = {"cpu": str(3 * gpus), "memory": f"{14 * gpus}Gi", GPU: str(gpus)}
    return {"metadata": {"name": f"p{number:04}"}, "spec": {"containers": [{"resources": {"requests": requests}}]}}


def _decide(gpus: list[int]) -> Decision:
    terms = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    pool = {"metadata": {"name": "gpu"}, "spec": {"template": {"spec": {"requirements": [terms]}}}}
    given = {"nodePools": [pool], "pods": [_pod(number, count) for number, count in enumerate(gpus)]}
    return solve(snapshot(msgspec.convert(given, Scenario), TYPES).snapshot)


@pytest.mark.parametrize(
    ("count", "karpenter"),
    [(1, 0.526), (2, 4.352), (8, 22.032), (50, 136.544)],
)
def test_pods_of_one_gpu_cost_no_more_than_one_machine_each(count: int, karpenter: float) -> None:
    """Nor more than the machines that Karpenter's scheduler plans for the same pods (USD an hour)."""
    single = _decide([1]).price
    decision = _decide([1] * count)
    assert not decision.errors
    assert decision.price <= min(count * single, karpenter) + 0.005


def test_a_thousand_mixed_pods_cost_no_more_than_one_machine_each() -> None:
    """Each pod on the cheapest machine that takes it alone is an upper bound, and less than Karpenter's 5,508 USD."""
    wanted = [MIXED[number % len(MIXED)] for number in range(1000)]
    bound = sum(_decide([gpus]).price * pods for gpus, pods in Counter(wanted).items())
    decision = _decide(wanted)
    assert not decision.errors
    assert decision.price <= min(bound, 5508.0) + 0.005
