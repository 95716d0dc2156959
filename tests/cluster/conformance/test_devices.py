"""ResourceSlices, ResourceClaims, their templates and DeviceClasses: what drivers, users and kube-scheduler write."""

from typing import Any

import pytest

from .server import MERGE, Json, Server
from .things import at, meta

pytestmark = pytest.mark.asyncio

GROUP = "/apis/resource.k8s.io/v1"
SLICES, CLASSES = f"{GROUP}/resourceslices", f"{GROUP}/deviceclasses"
CLAIMS, TEMPLATES = f"{GROUP}/namespaces/default/resourceclaims", f"{GROUP}/namespaces/default/resourceclaimtemplates"
DRIVER = "gpu.example.com"


def body(kind: str, server: Server, **fields: Any) -> Json:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": meta(server, kind.lower()), **fields}


async def published(server: Server, node: str) -> Json:
    """One slice of a pool of two."""
    device = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}, "capacity": {"memory": {"value": "40Gi"}}}
    pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [device]}
    return await server.done("POST", SLICES, body("ResourceSlice", server, spec=spec))


def requests(server: Server) -> Json:
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": server.name("class")}}]}}


async def test_a_slice_counts_the_changes_of_its_spec(server: Server) -> None:
    """The generation of the object is another one than that of the pool."""
    made = await published(server, server.name("node"))
    assert made["metadata"]["generation"] == 1
    assert made["spec"]["pool"]["generation"] == 1
    patch = {"spec": {"pool": {"generation": 5}}}
    changed = await server.done("PATCH", at(SLICES, made), patch, how=MERGE)
    assert (changed["metadata"]["generation"], changed["spec"]["pool"]["generation"]) == (2, 5)
    assert changed["spec"]["devices"] == made["spec"]["devices"]


async def test_slices_are_selected_by_node_and_driver(server: Server) -> None:
    """By their fields; those of another Node are left out."""
    here, there = server.name("here"), server.name("there")
    made = await published(server, here)
    await published(server, there)
    for selector in (f"spec.nodeName={here}", f"spec.nodeName={here},spec.driver={DRIVER}"):
        found = await server.get(f"{SLICES}?fieldSelector={selector}")
        assert [one["metadata"]["name"] for one in found["items"]] == [made["metadata"]["name"]]


async def test_a_deleted_slice_is_the_answer(server: Server) -> None:
    """The DELETE of these kinds answers with the object."""
    made = await published(server, server.name("node"))
    gone = await server.done("DELETE", at(SLICES, made))
    assert (gone["kind"], gone["metadata"]["uid"]) == ("ResourceSlice", made["metadata"]["uid"])


async def test_the_status_of_a_claim_is_its_own_resource(server: Server) -> None:
    """An allocation is written by kube-scheduler through /status only."""
    status = {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}
    made = await server.done("POST", CLAIMS, body("ResourceClaim", server, spec=requests(server), status=status))
    assert made.get("status", {}) == {}
    result = {"request": "gpu", "driver": DRIVER, "pool": "node", "device": "gpu-0"}
    allocation = {"status": {"allocation": {"devices": {"results": [result]}}}}
    changed = await server.done("PATCH", at(CLAIMS, made, "status"), allocation, how=MERGE)
    assert changed["status"]["allocation"]["devices"]["results"] == [result]
    assert (await server.get(at(CLAIMS, made)))["status"] == changed["status"]


async def test_a_template_and_a_class_are_kept_as_sent(server: Server) -> None:
    """The class of a request need not exist."""
    wanted = requests(server)
    template = await server.done("POST", TEMPLATES, body("ResourceClaimTemplate", server, spec={"spec": wanted}))
    (kept,) = template["spec"]["spec"]["devices"]["requests"]
    (sent,) = wanted["devices"]["requests"]
    assert kept["exactly"]["deviceClassName"] == sent["exactly"]["deviceClassName"]
    selectors = [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]
    made = await server.done("POST", CLASSES, body("DeviceClass", server, spec={"selectors": selectors}))
    assert made["spec"]["selectors"] == selectors
