"""Leases: how one of several clients acquires and renews leadership."""

import asyncio

import pytest

from .server import MERGE, Json, Server
from .things import LEASES, at, lease

pytestmark = pytest.mark.asyncio


def taking(held: Json, holder: str) -> Json:
    """The patch that acquires or renews the Lease at the version that was read."""
    spec = {"holderIdentity": holder, "renewTime": "2026-03-01T12:00:10.000001Z"}
    return {"metadata": {"resourceVersion": held["metadata"]["resourceVersion"]}, "spec": spec}


async def test_a_lease_keeps_its_microseconds(server: Server) -> None:
    """Times keep their microseconds."""
    held = await lease(server)
    assert held["spec"]["renewTime"] == "2026-03-01T12:00:00.123456Z"
    assert await server.get(at(LEASES, held)) == held


async def test_a_time_without_microseconds_is_refused(server: Server) -> None:
    """A MicroTime has six decimals or none."""
    held = await lease(server)
    for wrong in ("2026-03-01T12:00:00Z", "soon"):
        body = {"spec": {"renewTime": wrong}}
        result = await server.refused(422, "Invalid", "PATCH", at(LEASES, held), body, how=MERGE)
        assert result["details"]["causes"][0]["field"] == "patch"
    body = {"metadata": {"name": server.name()}, "spec": {"renewTime": "2026-03-01T12:00:00Z"}}
    await server.refused(400, "BadRequest", "POST", LEASES, body)


async def test_one_of_many_clients_creates_it(server: Server) -> None:
    """Of concurrent creates one succeeds, and the others get AlreadyExists."""
    name = server.name("lease")
    body = {"metadata": {"name": name}, "spec": {"leaseDurationSeconds": 30}}
    async with asyncio.TaskGroup() as group:
        tries = [group.create_task(server.request("POST", LEASES, body)) for _ in range(8)]
    answers = [one.result() for one in tries]
    assert sorted(answer.status for answer in answers) == [201] + 7 * [409]
    assert {answer.body["reason"] for answer in answers if answer.status == 409} == {"AlreadyExists"}


async def test_one_of_many_clients_takes_it_over(server: Server) -> None:
    """Of concurrent patches of one version one succeeds, the others get Conflict, and its client is the holder."""
    held = await lease(server)
    async with asyncio.TaskGroup() as group:
        tries = {
            holder: group.create_task(
                server.request("PATCH", at(LEASES, held), taking(held, holder), how=MERGE)
            )
            for holder in "abcdefgh"
        }  # fmt: skip
    answers = {holder: one.result() for holder, one in tries.items()}
    winners = [holder for holder, answer in answers.items() if answer.status == 200]
    assert len(winners) == 1
    assert {answer.body["reason"] for answer in answers.values() if answer.status != 200} == {"Conflict"}
    assert (await server.get(at(LEASES, held)))["spec"]["holderIdentity"] == winners[0]


async def test_renewals_are_bound_to_the_version(server: Server) -> None:
    """Each renewal has the version of the last one; an older version is refused."""
    held = await lease(server)
    renewed = await server.patch(at(LEASES, held), taking(held, "one"))
    again = await server.patch(at(LEASES, held), {**taking(renewed, "one"), "spec": {"leaseTransitions": 1}})
    assert again["spec"]["leaseTransitions"] == 1
    await server.refused(409, "Conflict", "PATCH", at(LEASES, held), taking(renewed, "one"), how=MERGE)


async def test_a_lease_is_released_by_an_empty_holder(server: Server) -> None:
    """An empty holderIdentity is accepted, as a leader writes it on shutdown."""
    held = await lease(server)
    body = {**taking(held, ""), "spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}
    released = await server.patch(at(LEASES, held), body)
    assert released["spec"].get("holderIdentity", "") == ""
    assert released["spec"]["leaseDurationSeconds"] == 1


async def test_bounds_of_a_lease(server: Server) -> None:
    """A duration of zero and negative transitions are 422."""
    held = await lease(server)
    for field, value in (("leaseDurationSeconds", 0), ("leaseTransitions", -1)):
        body = {"spec": {field: value}}
        result = await server.refused(422, "Invalid", "PATCH", at(LEASES, held), body, how=MERGE)
        assert result["details"]["causes"][0]["field"] == f"spec.{field}"


async def test_a_deleted_lease_is_created_again(server: Server) -> None:
    """A renewal of a deleted Lease is 404, and a new Lease has none of its fields."""
    held = await lease(server)
    await server.delete(at(LEASES, held))
    result = await server.refused(404, "NotFound", "PATCH", at(LEASES, held), taking(held, "one"), how=MERGE)
    assert result["details"] == {
        "name": held["metadata"]["name"],
        "group": "coordination.k8s.io",
        "kind": "leases",
    }
