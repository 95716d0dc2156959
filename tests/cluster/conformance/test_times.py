"""Times and periods at the limits: which the server accepts, and how it stores them."""

import pytest

from .server import Server
from .things import CLAIMS, NODES, PODS, at, claim_body, meta

pytestmark = pytest.mark.asyncio

# A time as a claim's taint has it (any text that the CRD's format accepts), and as a Node's taint stores it.
REFUSED = ""
TIMES = {
    "2024-01-01T00:00:00Z": (True, "2024-01-01T00:00:00Z"),
    "2024-01-01T00:00:00.1234567890123Z": (True, "2024-01-01T00:00:00Z"),
    "2024-01-01T00:00:00,5Z": (True, "2024-01-01T00:00:00Z"),
    "2024-01-01T00:00:00x5Z": (True, REFUSED),
    "2024-01-01T00:00:00.Z": (False, REFUSED),
    "2024-01-01T00:00:00\n.5Z": (False, REFUSED),
    "2024-01-01T00:00:00.5z": (True, REFUSED),
    "2024-01-01t00:00:00Z": (True, REFUSED),
    "2024-01-01 00:00:00Z": (False, REFUSED),
    "2024-01-01T00:00:00ZTrest": (True, REFUSED),
    "2024-01-01T00:00:00": (False, REFUSED),
    "2024-01-01": (False, REFUSED),
    "": (False, REFUSED),
    "2024-01-01T00:00:00+23:59": (True, "2023-12-31T00:01:00Z"),
    "2024-01-01T00:00:00+24:00": (True, "2023-12-31T00:00:00Z"),
    "2024-01-01T00:00:00+00:60": (True, "2023-12-31T23:00:00Z"),
    "2024-01-01T00:00:00+99:99": (True, REFUSED),
    "2024-01-01T00:00:00+0200": (False, REFUSED),
    "2024-01-01T24:00:00Z": (False, REFUSED),
    "2024-01-01T23:59:60Z": (False, REFUSED),
    "2024-02-30T00:00:00Z": (False, REFUSED),
    "2024-1-1T00:00:00Z": (False, REFUSED),
    "0000-01-01T00:00:00Z": (True, "0000-01-01T00:00:00Z"),
    "0001-01-01T00:00:00Z": (True, None),
    "9999-12-31T23:59:59-23:00": (True, "10000-01-01T22:59:59Z"),
}
LARGEST = 2**63 - 1


@pytest.mark.parametrize("text", TIMES)
async def test_a_time_of_a_custom_resource_is_stored_as_it_is(server: Server, text: str) -> None:
    """The format date-time of a CRD is wider than RFC 3339, and the text is kept."""
    accepted, _ = TIMES[text]
    taint = {"key": "sku", "effect": "NoSchedule", "timeAdded": text}
    answer = await server.request("POST", CLAIMS, claim_body(server, spec={"taints": [taint]}))
    assert answer.status == (201 if accepted else 422), answer
    if accepted:
        assert answer.body["spec"]["taints"] == [taint]
    else:
        assert "spec.taints[0].timeAdded in body must be of type date-time" in answer.body["message"]


@pytest.mark.parametrize("text", TIMES)
async def test_a_time_of_a_built_in_kind_is_stored_in_utc(server: Server, text: str) -> None:
    """Go parses the time and writes it in UTC with whole seconds, in the years 0 to 10000."""
    _, stored = TIMES[text]
    taint = {"key": "sku", "effect": "NoSchedule", "timeAdded": text}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": meta(server, "node"), "spec": {"taints": [taint]}}
    answer = await server.request("POST", NODES, body)
    if stored == REFUSED:
        assert answer.status == 400, answer
        assert "parsing time" in answer.body["message"]
    else:
        assert answer.status == 201, answer
        assert answer.body["spec"]["taints"][0].get("timeAdded") == stored


@pytest.mark.parametrize(
    ("sent", "stored"), [(0, 0), (-1, 1), (LARGEST, LARGEST), (99_999_999_999, 99_999_999_999), (None, 30)]
)
async def test_a_pods_grace_period_has_no_upper_limit(server: Server, sent: int | None, stored: int) -> None:
    """Any int64 is accepted; below 0 it is 1."""
    spec = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": sent}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta(server, "pod"), "spec": spec}
    assert (await server.done("POST", PODS, body))["spec"]["terminationGracePeriodSeconds"] == stored


@pytest.mark.parametrize("sent", [2**63, "30", 1.5])
async def test_a_grace_period_is_an_integer_of_64_bits(server: Server, sent: object) -> None:
    """Go cannot decode anything else."""
    spec = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": sent}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta(server, "pod"), "spec": spec}
    refused = await server.refused(400, "BadRequest", "POST", PODS, body)
    assert "terminationGracePeriodSeconds of type int64" in refused["message"]


@pytest.mark.parametrize("seconds", [LARGEST, 99_999_999_999])
async def test_the_deletion_time_of_an_endless_pod_overflows(server: Server, seconds: int) -> None:
    """The deletionTimestamp is the time of the DELETE plus an int64 of nanoseconds, so only the period is reliable."""
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "nodeName": "nowhere",
        "terminationGracePeriodSeconds": seconds,
    }
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta(server, "pod"), "spec": spec}
    made = await server.done("POST", PODS, body)
    await server.delete(at(PODS, made))
    deleted = (await server.get(at(PODS, made)))["metadata"]
    assert deleted["deletionGracePeriodSeconds"] == seconds
    created = int(made["metadata"]["creationTimestamp"][:4])
    assert int(deleted["deletionTimestamp"][:4]) - created in ({0, -1} if seconds == LARGEST else {245, 246, 247})
