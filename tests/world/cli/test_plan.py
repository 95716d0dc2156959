"""`gpu-provisioner plan` beside the controller: the plan equals the request that is sent, and its result."""

from typing import Any

import pytest

from provisioner.api import labels
from provisioner.cli.commands.planning import CREATED, DERIVED, PUT_TIME, UID, Plan, plan
from tests.world.claims import ready
from tests.world.harness import Json, Sim, node_claim, simulated

SPOT = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["spot", "on-demand"]}
ZONES = {"key": labels.ZONE, "operator": "In", "values": ["westeurope-2", "westeurope-1"]}
TAINT = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}


def wanting(size: str, *more: Json) -> list[Json]:
    return [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": [size]}, *more]


CLAIMS: dict[str, Json] = {
    "as KAITO writes it": node_claim("gpu1", taints=[TAINT], expireAfter="Never"),
    "on spot, in a zone": node_claim("gpu1", requirements=wanting("Standard_NC4as_T4_v3", SPOT, ZONES)),
    "AMD, with labels of its own": node_claim("gpu1", size="Standard_ND96isr_MI300X_v5", labels={"team": "a"}),
    "no GPU, no disk": node_claim("gpu1", size="Standard_D4s_v5", resources={}),
    "a long name": node_claim("a-long-name"),
}


def filled(value: Any, known: dict[str, str]) -> Any:
    """The value with placeholders filled in."""
    if isinstance(value, dict):
        return {key: filled(below, known) for key, below in value.items()}
    return known.get(value, value) if isinstance(value, str) else value


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
@simulated()
async def test_what_is_planned_is_what_is_sent(sim: Sim, claim: Json) -> None:
    """The body of the PUT is the planned one, member by member; the Node has the planned labels, taints and GPUs."""
    planned = plan("claim.yaml", claim)
    assert planned.errors == ()
    await sim.start_controller(elect=False)
    await sim.apply(claim)
    name = claim["metadata"]["name"]
    uid = await ready(sim, name, within_seconds=1200)
    (put,) = sim.cloud.put_log
    there = sim.claim(name)
    assert there is not None
    known = {
        UID: uid,
        CREATED: there["metadata"]["creationTimestamp"].replace(":", "-"),
        PUT_TIME: put.properties["tags"][labels.TAG_PUT_TIME],
        DERIVED: put.pool,
        "<location>-2": "westeurope-2",
    }
    assert planned.agent_pool is not None
    assert filled(planned.agent_pool["properties"], known) == dict(put.properties)
    assert filled(planned.pool_name, known) == put.pool
    (node,) = sim.nodes_of(put.pool)
    _same_node(planned, node, known)


def _same_node(planned: Plan, node: Json, known: dict[str, str]) -> None:
    wanted = planned.node
    assert wanted is not None
    assert filled(dict(wanted.labels), known).items() <= node["metadata"]["labels"].items()
    taints = {f"{t['key']}={t.get('value', '')}:{t['effect']}" for t in node["spec"].get("taints") or ()}
    assert taints == set(wanted.taints)
    shown = node["status"]["allocatable"]
    assert {key: int(value) for key, value in shown.items() if key.endswith("/gpu")} == (
        {} if wanted.gpus is None else {wanted.gpus.resource: wanted.gpus.count}
    )
