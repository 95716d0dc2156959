"""Tables: the columns that `kubectl get` prints."""

from typing import Any

import pytest

from .server import TABLE, Json, Server
from .things import (
    BUDGETS,
    CLAIMS,
    CRDS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    WIDGETS,
    at,
    claim,
    lease,
    node,
    pod,
    widget,
)

pytestmark = pytest.mark.asyncio


async def table(server: Server, collection: str, **query: Any) -> Json:
    """The Table of this test's objects."""
    return await server.get(collection, accept=TABLE, labelSelector=f"case={server.case}", **query)


def cells(found: Json, row: int = 0) -> dict[str, Any]:
    """A row by the names of its columns."""
    names = [column["name"] for column in found["columnDefinitions"]]
    return dict(zip(names, found["rows"][row]["cells"], strict=True))


@pytest.mark.parametrize(
    ("collection", "columns"),
    [
        (NODES, "Name Status Roles Age Version Internal-IP External-IP OS-Image Kernel-Version Container-Runtime"),
        (PODS, "Name Ready Status Restarts Age IP Node Nominated_Node Readiness_Gates"),
        (EVENTS, "Last_Seen Type Reason Object Subobject Source Message First_Seen Count Name"),
        (LEASES, "Name Holder Age"),
        (BUDGETS, "Name Min_Available Max_Unavailable Allowed_Disruptions Age"),
        (NAMESPACES, "Name Status Age"),
        (CRDS, "Name Created_At"),
        (CLAIMS, "Name Type Capacity Zone Node Ready Age Reason ImageID ID NodePool NodeClass Drifted"),
        (WIDGETS, "Name Zone Ready Age Size"),
    ],
)
async def test_each_kind_has_its_columns(server: Server, collection: str, columns: str) -> None:
    """Each kind has its columns in this order, in an empty list too."""
    found = await table(server, collection)
    assert (found["kind"], found["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [c["name"].replace(" ", "_") for c in found["columnDefinitions"]] == columns.split()
    assert not found["rows"]


async def test_the_row_of_a_new_node(server: Server) -> None:
    """A new Node is Unknown, without role and addresses, some seconds old."""
    made = await node(server)
    row = cells(await table(server, NODES))
    assert row.pop("Age").endswith("s")
    assert row == {
        "Name": made["metadata"]["name"],
        "Status": "Unknown",
        "Roles": "<none>",
        "Version": "",
        "Internal-IP": "<none>",
        "External-IP": "<none>",
        "OS-Image": "<unknown>",
        "Kernel-Version": "<unknown>",
        "Container-Runtime": "<unknown>",
    }


async def test_the_row_of_a_node(server: Server) -> None:
    """A Node's row has Ready, SchedulingDisabled, its role and its kubelet's version."""
    made = await node(server, labels={"node-role.kubernetes.io/gpu": ""}, spec={"unschedulable": True})
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.4"}],
        "nodeInfo": {"kubeletVersion": "v1.34.0"},
    }
    await server.patch(at(NODES, made, "status"), {"status": status})
    row = cells(await table(server, NODES))
    assert row["Status"] == "Ready,SchedulingDisabled"
    assert row["Roles"] == "gpu"
    assert (row["Version"], row["Internal-IP"]) == ("v1.34.0", "10.0.0.4")


async def test_the_row_of_a_pod(server: Server) -> None:
    """A pod's row has its phase and its Node, and Terminating once it is deleted."""
    place = (await node(server))["metadata"]["name"]
    made = await pod(server, on=place, phase="Running")
    row = cells(await table(server, PODS))
    assert (row["Ready"], row["Status"], row["Node"]) == ("0/1", "Running", place)
    await server.delete(at(PODS, made))
    assert cells(await table(server, PODS))["Status"] == "Terminating"


async def test_the_row_of_a_claim(server: Server) -> None:
    """A claim's row has the values of the CRD's JSONPaths; null where there is none."""
    labels = {"node.kubernetes.io/instance-type": "Standard_NC24ads_A100_v4", "karpenter.sh/nodepool": "kaito"}
    made = await claim(server, labels=labels)
    row = cells(await table(server, CLAIMS))
    assert row["Type"] == "Standard_NC24ads_A100_v4"
    assert row["NodePool"] == "kaito"
    assert row["NodeClass"] == "default"
    assert (row["Node"], row["Ready"], row["Drifted"]) == (None, None, None)
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": "2026-03-01T12:00:00Z"}
    body = {"status": {"nodeName": "n", "providerID": "azure:///x", "conditions": [ready]}}
    await server.patch(at(CLAIMS, made, "status"), body)
    row = cells(await table(server, CLAIMS))
    assert (row["Node"], row["Ready"], row["ID"]) == ("n", "True", "azure:///x")
    assert row["Age"].endswith("s")


async def test_columns_have_types_and_priorities(server: Server) -> None:
    """Priority 0 is always printed, the others with -o wide; a column without description is described by its path."""
    found = (await table(server, WIDGETS))["columnDefinitions"]
    assert [(c["name"], c["type"], c["priority"]) for c in found] == [
        ("Name", "string", 0),
        ("Zone", "string", 0),
        ("Ready", "string", 0),
        ("Age", "date", 0),
        ("Size", "integer", 1),
    ]
    assert found[2]["description"] == "Whether it is."
    assert found[4]["description"] == "Custom resource definition column (in JSONPath format): .spec.size"


async def test_the_row_of_a_lease(server: Server) -> None:
    """A Lease's row has its holder, as `kubectl get lease` prints it."""
    await lease(server, holder="pod-1")
    assert cells(await table(server, LEASES))["Holder"] == "pod-1"


async def test_the_table_of_a_single_object(server: Server) -> None:
    """The table of one object has one row, whose object is metadata only."""
    made = await widget(server, spec={"size": 3})
    found = await server.get(at(WIDGETS, made), accept=TABLE)
    assert cells(found)["Size"] == 3
    included = found["rows"][0]["object"]
    assert (included["kind"], included["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert included["metadata"]["uid"] == made["metadata"]["uid"]
    assert "spec" not in included


async def test_include_object(server: Server) -> None:
    """A row has the object's metadata, nothing, or the whole object."""
    await widget(server, spec={"size": 3})
    none = await table(server, WIDGETS, includeObject="None")
    assert none["rows"][0]["object"] is None
    whole = await table(server, WIDGETS, includeObject="Object")
    assert whole["rows"][0]["object"]["spec"]["size"] == 3
    await server.refused(400, "BadRequest", "GET", WIDGETS, accept=TABLE, includeObject="Odd")


async def test_pages_of_a_table(server: Server) -> None:
    """A table has the same continue tokens as a list."""
    made = [(await widget(server))["metadata"]["name"] for _ in range(2)]
    first = await table(server, WIDGETS, limit=1)
    rest = await table(server, WIDGETS, limit=1, **{"continue": first["metadata"]["continue"]})
    assert [cells(first)["Name"], cells(rest)["Name"]] == made
