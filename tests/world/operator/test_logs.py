"""The log of a life at level INFO, as an operator reads it, and of refusals."""

import asyncio
import dataclasses

import pytest

from provisioner.api.time import parse_duration
from provisioner.simulator.azure import faults
from provisioner.simulator.azure.faults import Fault
from tests.world.claims import LOG_OF_A_LIFE, ready, removed, wait_for_condition
from tests.world.harness import SIZE, node_claim, simulate

from .common import Line, logged


async def healthy_life(sim) -> None:
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1")
    await removed(sim, "gpu1")
    await asyncio.sleep(1)  # the controller reads the last answer


def about(lines: list[Line], name: str) -> list[Line]:
    return [line for line in lines if line.get("NodeClaim") == {"name": name}]


def test_a_healthy_life_has_one_line_for_each_step_that_matters() -> None:
    """At most eight lines from the claim to its removal, each with claim, pool, size, zone, node, owner, duration."""

    with logged() as lines:
        simulate(healthy_life)
    life = about(lines, "gpu1")
    assert [line["message"] for line in life] == LOG_OF_A_LIFE
    assert {line["level"] for line in life} == {"INFO"}
    for line in life:
        assert (line["pool"], line["instance-type"], line["capacity-type"]) == ("gpu1", SIZE, "on-demand"), line
        assert line["owner"] == "Workspace default/w", line
        assert "zone" in line, line
        assert parse_duration(line["duration"]) is not None, line
    [created, *_, deleting, _, gone] = life
    assert created["request_id"]
    assert (deleting["cause"], bool(deleting["etag"])) == ("requested", True)
    registered = next(line for line in life if line["message"] == "registered nodeclaim")
    assert registered["Node"]["name"].startswith("aks-gpu1-")
    assert registered["provider-id"].startswith("azure://")
    assert gone["zone"] == created["zone"]


REFUSED = {
    "code": "ErrCode_InsufficientVCPUQuota",
    "reason": "QuotaExceeded",
    "message": "failed to create agent pool",
    "status": 400,
}
FAILED = {"code": "OperationNotAllowed", "reason": "QuotaExceeded", "message": "failed to launch nodeclaim"}


@pytest.mark.parametrize(
    ("fault", "expected"), [(faults.quota_preflight(), REFUSED), (faults.quota(), FAILED)], ids=["refused", "failed"]
)
def test_a_refusal_is_one_warning_with_its_cause(fault: Fault, expected: Line) -> None:
    """Code, size, reason, message and request ID, once: for the refused PUT, or for the pool that failed later."""

    async def story(sim) -> None:
        sim.cloud.faults.append(dataclasses.replace(fault))
        await sim.start_controller()
        await sim.apply(node_claim("gpu1"))
        await wait_for_condition(sim, "gpu1", "Launched", "False", "QuotaExceeded")
        await asyncio.sleep(1)

    with logged() as lines:
        simulate(story)
    [warning] = [line for line in about(lines, "gpu1") if line["level"] == "WARNING"]
    assert warning.items() >= expected.items()
    assert (warning["instance-type"], warning["pool"], warning["owner"]) == (SIZE, "gpu1", "Workspace default/w")
    assert "quota" in warning["error"].lower()
    [put] = [line for line in about(lines, "gpu1") if "request_id" in line and line["message"].endswith("agent pool")][
        :1
    ]
    assert put["request_id"]


def test_single_patches_are_at_level_debug() -> None:
    """Every write to the cluster is in the log at level DEBUG, in the order in which it was made."""

    with logged("debug") as lines:
        simulate(healthy_life)
    wrote = [line for line in about(lines, "gpu1") if line["message"] == "wrote"]
    assert {line["level"] for line in wrote} == {"DEBUG"}
    steps = [line["step"] for line in wrote]
    assert (steps[0], steps[-1]) == ("AddFinalizer", "ReleaseFinalizer")
    assert {"PatchNode", "PatchStatus", "CreateInstance", "DeleteInstance"} < set(steps)
