"""Bad input of users: each has a cause where the user looks, and a pod beside it gets its machine."""

import asyncio
from functools import partial
from typing import Any

import msgspec
import pytest
from aiohttp import web

from provisioner.simulator.audit_log import Call
from tests.world.claims import condition
from tests.world.demand import T4, claims_of, node_class, node_pool, pending, pod, pod_events
from tests.world.harness import Json, Sim, simulated

POOLS, CLASSES = "nodepools.karpenter.sh", "agentpoolnodeclasses.gpu-provisioner.sh"
CRDS = "customresourcedefinitions.apiextensions.k8s.io"
SIZE = "node.kubernetes.io/instance-type"
POOL = "karpenter.sh/nodepool"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of bad input: a NodePool, and a pod that selects it.

    `reason`: of the NodePool's condition that is False (`kind`), and of its Event. `message`: a part of both, and of
    the pod's Event. Without `reason` only the pod has an Event.
    """

    pool: Json = {}
    requirements: tuple[Json, ...] = ()
    class_name: str = "default"
    pod: Json = {}
    kind: str = ""
    reason: str = ""
    message: str


def requires(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, "values": [*values]}


ROWS = {
    "class missing": Row(
        class_name="none",
        kind="NodeClassReady",
        reason="NodeClassNotFound",
        message="AgentPoolNodeClass none does not exist: create it",
    ),
    "class not ready": Row(
        class_name="invalid",
        kind="NodeClassReady",
        reason="NodeClassValidationFailed",
        message="AgentPoolNodeClass invalid is not Ready: spec.spot.maxPrice",
    ),
    "contradictory requirements": Row(
        requirements=(requires("a", "In", "1"), requires("a", "In", "2")),
        kind="ValidationSucceeded",
        reason="NodePoolValidationFailed",
        message="no value satisfies all requirements",
    ),
    "unknown sizes": Row(
        requirements=(requires(SIZE, "In", "Standard_NC4as_T5_v3"),),
        kind="ValidationSucceeded",
        reason="NodePoolValidationFailed",
        message="Standard_NC4as_T5_v3: unknown sizes",
    ),
    "static": Row(pool={"replicas": 0}, message="NodePool bad is not used: it is static"),
    "no size satisfies": Row(
        requirements=(requires("karpenter.azure.com/sku-gpu-count", "Gt", "64"),),
        reason="NoCompatibleInstanceTypes",
        message="no instance type with an available offering satisfies its requirements",
    ),
    "limit of 0": Row(pool={"limits": {"cpu": "0"}}, message="limits of the NodePool are exhausted: cpu"),
    "pod that never fits": Row(pod={"gpus": 99}, message="nvidia.com/gpu 99 requested, at most 8 on one machine"),
    "unknown label": Row(pod={"nodeSelector": {"gpu-model": "T4"}}, message="gpu-model In [T4]"),
}


def bad_pool(row: Row) -> Json:
    body = node_pool("bad", requirements=row.requirements, **row.pool)
    body["spec"]["template"]["spec"]["nodeClassRef"]["name"] = row.class_name
    return body


def bad_pod(row: Row) -> Json:
    fields: dict[str, Any] = dict(row.pod)
    selector = {POOL: "bad", **fields.pop("nodeSelector", {})}
    return pod("bad", nodeSelector=selector, **fields)


def pool_events(sim: Sim, name: str = "bad") -> list[tuple[str, str]]:
    fields = f"involvedObject.kind=NodePool,involvedObject.name={name}"
    return [(event["reason"], event["message"]) for event in sim.store.list("events", fields=fields)]


def accept_everything(sim: Sim, name: str) -> None:
    """A CRD of another version, with fewer rules."""
    crd = sim.store.get(CRDS, name)
    assert crd is not None
    for version in crd["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    sim.store.patch(CRDS, name, {"spec": {"versions": crd["spec"]["versions"]}})


@pytest.mark.matrix(quick=len(ROWS))
@pytest.mark.parametrize("name", ROWS)
def test_bad_input(name: str) -> None:
    """The NodePool has a condition or an Event with the cause, once; so has the pod; nobody else waits."""
    row = ROWS[name]

    @simulated()
    async def story(sim: Sim) -> None:
        await sim.apply(node_class())
        await sim.apply(node_class("invalid"))
        accept_everything(sim, CLASSES)
        sim.store.patch(CLASSES, "invalid", {"spec": {"spot": {"maxPrice": "0"}}})
        await sim.apply(node_pool())
        await sim.apply(bad_pool(row))
        await sim.start_controller()
        await pending(sim, bad_pod(row), pod("good", nodeSelector={POOL: "gpu"}))
        (claim,) = await sim.until(lambda: claims_of(sim), 5.0, "the NodeClaim of the good pod")
        assert next(one["values"] for one in claim["spec"]["requirements"] if one["key"] == SIZE)[0] == T4
        causes = await sim.until(lambda: pod_events(sim, "bad"), 5.0, "an Event on the pod")
        assert [reason for reason, _ in causes] == ["FailedScheduling"]
        assert row.message in causes[0][1]
        await sim.until(lambda: sim.now > 60.0, 90.0, "some more passes")
        assert [reason for reason, _ in pool_events(sim)] == ([row.reason] if row.reason else [])
        if row.kind:
            shown = condition(sim.store.get(POOLS, "bad"), row.kind)
            assert (shown["status"], shown["reason"]) == ("False", row.reason)
            assert row.message in shown["message"]
            assert row.message in pool_events(sim)[0][1]
        assert not claims_of(sim, "bad")
        assert len(claims_of(sim)) == 1

    story()


@simulated()
async def test_a_nodepool_that_is_corrected(sim: Sim) -> None:
    """Its pod gets a machine without another change; a new cause is another Event."""
    await sim.apply(node_pool("bad"))
    await sim.start_controller()
    await pending(sim, pod("waiting"))
    await sim.until(lambda: pool_events(sim), 5.0, "the NodePool's Event")
    assert [reason for reason, _ in pool_events(sim)] == ["NodeClassNotFound"]
    await sim.apply(node_class())
    await sim.until(lambda: claims_of(sim, "bad"), 15.0, "a NodeClaim")


REFUSALS = {403: "Forbidden", 404: "NotFound", 500: "InternalError"}


@pytest.mark.parametrize("status", REFUSALS)
@simulated()
async def test_a_nodeclaim_that_the_api_server_refuses(sim: Sim, status: int) -> None:
    """An admission policy refuses the NodeClaims of one NodePool: its pod has the cause, the others continue.

    A webhook chooses its code. One that fails (500) is asked again.
    """
    for name in ("bad", "gpu"):
        await sim.apply(node_pool(name))
    await sim.apply(node_class())

    async def refuse(call: Call, request: web.Request) -> web.StreamResponse | None:
        if call.verb != "POST" or call.target.kind != "nodeclaims" or b'"bad-1"' not in await request.read():
            return None
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": REFUSALS[status], "code": status}
        return web.json_response({**body, "message": "no money"}, status=status)

    sim.world.before.append(refuse)
    await sim.start_controller()
    await pending(sim, pod("first", nodeSelector={POOL: "bad"}), pod("second", nodeSelector={POOL: "gpu"}))
    await sim.until(lambda: claims_of(sim), 5.0, "the NodeClaim of the other pod")
    if status == 500:
        sim.world.before.remove(refuse)
        await sim.until(lambda: claims_of(sim, "bad"), 60.0, "its NodeClaim")
        return
    (cause,) = await sim.until(lambda: pod_events(sim, "first"), 5.0, "the Event")
    assert cause[0] == "FailedScheduling"
    assert "NodePool bad: its NodeClaim is refused" in cause[1]
    assert "no money" in cause[1]


@simulated()
async def test_a_webhook_that_hangs_for_the_nodeclaims_of_one_nodepool(sim: Sim) -> None:
    """Its default `timeoutSeconds` is the timeout of requests, so that there is no answer: others get their machines.

    20 machines are not waited for one after the other.
    """
    await sim.apply(node_class())
    await sim.apply(node_pool("bad", requirements=[requires(SIZE, "In", T4)]))
    await sim.apply(node_pool("gpu"))
    await sim.start_controller()

    async def hang(call: Call, request: web.Request) -> web.StreamResponse | None:
        if call.verb == "POST" and call.target.kind == "nodeclaims" and b'"bad-' in await request.read():
            await asyncio.sleep(11.0)
            return web.json_response(
                {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500}, status=500
            )
        return None

    sim.world.before.append(hang)
    await pending(sim, *(pod(f"bad-{number}", nodeSelector={POOL: "bad"}) for number in range(20)))
    await asyncio.sleep(30.0)
    await pending(sim, pod("second", nodeSelector={POOL: "gpu"}))
    await sim.until(lambda: claims_of(sim), 120.0, "the NodeClaim of the other pod")
    (cause,) = await sim.until(lambda: pod_events(sim, "bad-0"), 60.0, "the Event")
    assert "NodePool bad: its NodeClaim cannot be created" in cause[1]
    sim.world.before.remove(hang)
    await sim.until(lambda: len(claims_of(sim, "bad")) == 20, 120.0, "the others")


@simulated()
async def test_what_is_known_of_other_pods_while_a_nodeclaim_cannot_be_created(sim: Sim) -> None:
    """A webhook fails for the NodeClaims of one NodePool: pods of all have an Event that states their cause."""
    await sim.apply(node_class())
    for name in ("bad", "gpu"):
        await sim.apply(node_pool(name))
    await sim.start_controller()

    async def fail(call: Call, request: web.Request) -> web.StreamResponse | None:
        if call.verb != "POST" or call.target.kind != "nodeclaims" or b'"bad-1"' not in await request.read():
            return None
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "InternalError", "code": 500}
        return web.json_response({**body, "message": "no endpoints"}, status=500)

    sim.world.before.append(fail)
    own = {name: pod(name, nodeSelector={POOL: pool}) for name, pool in (("a", "bad"), ("b", "gpu"), ("c", "none"))}
    await pending(sim, *own.values())
    for name, reason, text in (
        ("a", "FailedScheduling", "no endpoints"),
        ("b", "Nominated", "nodeclaim/gpu-1"),
        ("c", "FailedScheduling", "none"),
    ):
        found = await sim.until(partial(pod_events, sim, name), 30.0, f"an Event of pod {name}")
        assert found[0][0] == reason
        assert text in found[0][1]


@simulated()
async def test_a_nodepool_that_is_deleted_during_a_decision(sim: Sim) -> None:
    """Nothing is created from it, and the pod gets a machine of another NodePool."""
    for name in ("bad", "gpu"):
        await sim.apply(node_pool(name, **({"weight": 10} if name == "bad" else {})))
    await sim.apply(node_class())

    async def delete(call: Call, _: web.Request) -> web.StreamResponse | None:
        listed = call.verb == "LIST" and call.target.kind == "nodeclaims" and call.who in sim.controllers
        if listed and pod_exists(sim) and sim.store.get(POOLS, "bad") is not None:
            sim.store.delete(POOLS, "bad")
            await asyncio.sleep(0.1)  # until the watch has shown it
        return None

    await sim.start_controller()
    await sim.until(lambda: condition(sim.store.get(POOLS, "bad"), "Ready").get("status") == "True", 60.0, "Ready")
    sim.world.before.append(delete)
    await pending(sim, pod("p"))
    await sim.until(lambda: claims_of(sim), 15.0, "a NodeClaim of the other NodePool")
    assert not claims_of(sim, "bad")
    created = [call for call in sim.audit_log.calls() if call.verb == "POST" and call.target.kind == "nodeclaims"]
    assert len(created) == 1


def pod_exists(sim: Sim) -> bool:
    return sim.store.get("pods", "p", "default") is not None
