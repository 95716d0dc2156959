"""Evictions, as a drain sends them, and their refusal by disruption budgets."""

import pytest

from .server import Json, Server
from .things import BUDGETS, NODES, PODS, at, budget, node, pod

pytestmark = pytest.mark.asyncio

VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


def eviction(of: Json, **options: object) -> Json:
    """The body of an eviction."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": of["metadata"]["name"]}}
    return {**body, "deleteOptions": options} if options else body


async def evict(server: Server, of: Json, **options: object) -> None:
    """Evict a pod that may go."""
    answer = await server.request("POST", at(PODS, of, "eviction"), eviction(of, **options))
    assert answer.status == 201, answer
    assert (answer.body["kind"], answer.body["status"], answer.body["code"]) == ("Status", "Success", 201)


async def pods(server: Server, count: int, **fields: object) -> tuple[Json, list[Json]]:
    """Labels of their own, and so many ready pods with them on one Node."""
    labels = {"app": server.name("app")}
    place = (await node(server))["metadata"]["name"]
    return labels, [await pod(server, on=place, labels=labels, ready=True) for _ in range(count)]


async def settled(server: Server, made: Json, **status: int) -> None:
    """Wait until the budget's status, which a controller writes, has these values."""
    async with server.stream(BUDGETS, fieldSelector=f"metadata.name={made['metadata']['name']}") as watch:
        await watch.until(lambda event: status.items() <= event.object.get("status", {}).items())


async def test_an_evicted_pod_is_deleting_with_a_condition(server: Server) -> None:
    """An evicted pod has its grace period and the condition DisruptionTarget; a second eviction changes nothing."""
    _, (made,) = await pods(server, 1)
    await evict(server, made)
    found = await server.get(at(PODS, made))
    assert found["metadata"]["deletionGracePeriodSeconds"] == 30
    condition = next(c for c in found["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert (condition["status"], condition["reason"]) == ("True", "EvictionByEvictionAPI")
    await evict(server, made)
    assert (await server.get(at(PODS, made)))["metadata"]["deletionTimestamp"] == found["metadata"]["deletionTimestamp"]


async def test_an_eviction_can_shorten_the_grace_period(server: Server) -> None:
    """An eviction has the deleteOptions of a DELETE."""
    _, (made,) = await pods(server, 1)
    await evict(server, made, gracePeriodSeconds=7)
    assert (await server.get(at(PODS, made)))["metadata"]["deletionGracePeriodSeconds"] == 7


async def test_an_eviction_of_another_uid_is_refused(server: Server) -> None:
    """An eviction with the UID of an earlier pod of that name is 409."""
    _, (made,) = await pods(server, 1)
    body = eviction(made, preconditions={"uid": "11111111-1111-4111-8111-111111111111"})
    result = await server.refused(409, "Conflict", "POST", at(PODS, made, "eviction"), body)
    assert result["details"]["name"] == made["metadata"]["name"]
    assert "deletionTimestamp" not in (await server.get(at(PODS, made)))["metadata"]
    await evict(server, made, preconditions={"uid": made["metadata"]["uid"]})


async def test_an_absent_pod_cannot_be_evicted(server: Server) -> None:
    """An absent pod is 404 with its name; another name in the body than in the path is 400."""
    body = eviction({"metadata": {"name": "nope"}})
    result = await server.refused(404, "NotFound", "POST", f"{PODS}/nope/eviction", body)
    assert result["details"] == {"name": "nope", "kind": "pods"}
    _, (made,) = await pods(server, 1)
    await server.refused(400, "BadRequest", "POST", at(PODS, made, "eviction"), body)


async def test_a_dry_run_of_an_eviction(server: Server) -> None:
    """A dry run in the body or in the query evicts nothing."""
    _, (made,) = await pods(server, 1)
    await evict(server, made, dryRun=["All"])
    await server.done("POST", at(PODS, made, "eviction"), eviction(made), dryRun="All")
    assert await server.get(at(PODS, made)) == made


async def test_an_exhausted_budget_refuses(server: Server) -> None:
    """An exhausted budget is 429 with a cause that has its name and numbers, and without Retry-After."""
    labels, (made, _) = await pods(server, 2)
    holder = await budget(server, labels, minAvailable=2)
    await settled(server, holder, currentHealthy=2, desiredHealthy=2)
    answer = await server.request("POST", at(PODS, made, "eviction"), eviction(made))
    assert "Retry-After" not in answer.headers
    result = await server.refused(429, "TooManyRequests", "POST", at(PODS, made, "eviction"), eviction(made))
    assert result["message"] == VIOLATED
    name = holder["metadata"]["name"]
    message = f"The disruption budget {name} needs 2 healthy pods and has 2 currently"
    assert result["details"] == {"causes": [{"reason": "DisruptionBudget", "message": message}]}


async def test_a_budget_that_allows_one_eviction(server: Server) -> None:
    """The first eviction uses up the budget; the second waits for the first pod's replacement."""
    labels, (first, second) = await pods(server, 2)
    holder = await budget(server, labels, maxUnavailable=1)
    await server.patch(at(BUDGETS, holder), {"spec": {"maxUnavailable": None, "minAvailable": 1}})
    await settled(server, holder, disruptionsAllowed=1, observedGeneration=2)
    await evict(server, first)
    result = await server.refused(429, "TooManyRequests", "POST", at(PODS, second, "eviction"), eviction(second))
    assert result["message"] == VIOLATED
    await server.delete(at(PODS, first), {"gracePeriodSeconds": 0})
    await pod(server, on=first["spec"]["nodeName"], labels=labels, ready=True)
    await settled(server, holder, disruptionsAllowed=1)
    await evict(server, second)


async def test_two_budgets_on_one_pod_are_a_failure(server: Server) -> None:
    """Two budgets on one pod are 500 without a reason."""
    labels, (made,) = await pods(server, 1)
    for _ in range(2):
        await budget(server, labels, minAvailable=0)
    result = await server.refused(500, "", "POST", at(PODS, made, "eviction"), eviction(made))
    assert result["message"] == SEVERAL


async def test_pods_that_do_not_run_ignore_budgets(server: Server) -> None:
    """Pending, succeeded, failed and deleting pods can be evicted."""
    labels, (leaving,) = await pods(server, 1)
    place = leaving["spec"]["nodeName"]
    for _ in range(2):
        await budget(server, labels, minAvailable=9)
    await server.delete(at(PODS, leaving))
    others = [await pod(server, labels=labels), await pod(server, on=place, labels=labels, phase="Failed")]
    for made in (leaving, *others):
        await evict(server, made)


async def test_an_unready_pod_can_be_evicted_while_the_budget_is_met(server: Server) -> None:
    """A pod that is not ready is not counted as healthy, so its eviction violates nothing."""
    labels, (_,) = await pods(server, 1)
    unhealthy = await pod(server, on=(await node(server))["metadata"]["name"], labels=labels, phase="Running")
    holder = await budget(server, labels, minAvailable=1)
    await settled(server, holder, currentHealthy=1, expectedPods=2)
    await evict(server, unhealthy)


async def test_a_budget_of_another_namespace_or_other_labels_does_not_matter(server: Server) -> None:
    """A budget of another namespace or with another selector has no effect."""
    labels, (made,) = await pods(server, 1)
    await budget(server, {"app": "another"}, minAvailable=9)
    elsewhere = BUDGETS.replace("default", "kube-system")
    body = {"metadata": {"name": server.name()}, "spec": {"selector": {"matchLabels": labels}, "minAvailable": 9}}
    await server.done("POST", elsewhere, body)
    await evict(server, made)


async def test_a_node_can_be_deleted_before_its_pods(server: Server) -> None:
    """The API does not keep a Node for the pods that are bound to it."""
    _, (made,) = await pods(server, 1)
    await server.delete(f"{NODES}/{made['spec']['nodeName']}")
    assert "deletionTimestamp" not in (await server.get(at(PODS, made)))["metadata"]
