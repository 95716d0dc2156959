"""Owner references: what the garbage collector deletes, and what it keeps."""

import pytest

from .server import Json, Server
from .things import CLAIMS, LEASES, NODES, at, claim, lease, node

pytestmark = pytest.mark.asyncio

OTHER_UID = "11111111-1111-4111-8111-111111111111"


def owned_by(owner: Json, **fields: object) -> Json:
    """A reference as our controller writes it on a Node."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": True,
        **fields,
    }


async def gone(server: Server, collection: str, obj: Json) -> None:
    """Wait until the object is deleted."""
    query = {"fieldSelector": f"metadata.name={obj['metadata']['name']}"}
    async with server.stream(collection, **query, resourceVersion=obj["metadata"]["resourceVersion"]) as watch:
        await watch.until(lambda event: event.type == "DELETED")


async def seen_by_the_collector(server: Server, owner: Json) -> None:
    """Wait until the garbage collector has seen all Nodes that exist: it has deleted one that was created last.

    A dependent that it has not seen when its owner is deleted is neither waited for nor orphaned.
    """
    await gone(server, NODES, await node(server, ownerReferences=[owned_by(owner, uid=OTHER_UID)]))


async def test_a_dependent_is_deleted_after_its_owner(server: Server) -> None:
    """The owner is deleted at once, its dependent afterwards."""
    owner = await claim(server)
    owned = await node(server, ownerReferences=[owned_by(owner)])
    result = await server.delete(at(CLAIMS, owner))
    assert result["status"] == "Success"
    await gone(server, NODES, owned)


async def test_a_dependent_of_an_unknown_uid_is_deleted(server: Server) -> None:
    """A reference with a known name and an unknown uid counts as absent."""
    owner = await claim(server)
    owned = await node(server, ownerReferences=[owned_by(owner, uid=OTHER_UID)])
    await gone(server, NODES, owned)
    assert not await server.absent(at(CLAIMS, owner))


async def test_a_dependent_with_another_owner_stays(server: Server) -> None:
    """While one owner exists, only the reference to the deleted one is removed."""
    first, second = await claim(server), await claim(server)
    owned = await node(server, ownerReferences=[owned_by(first), owned_by(second)])
    await server.delete(at(CLAIMS, first))
    query = {"fieldSelector": f"metadata.name={owned['metadata']['name']}"}
    async with server.stream(NODES, **query, resourceVersion=owned["metadata"]["resourceVersion"]) as watch:
        event = await watch.next()
    assert event.type == "MODIFIED"
    assert [ref["uid"] for ref in event.object["metadata"]["ownerReferences"]] == [second["metadata"]["uid"]]


async def test_a_deleting_owner_keeps_its_dependents(server: Server) -> None:
    """While a finalizer keeps the owner, its dependent stays; then it is deleted."""
    owner = await claim(server, finalizers=["example.com/a"])
    owned = await node(server, ownerReferences=[owned_by(owner)])
    await server.delete(at(CLAIMS, owner))
    await seen_by_the_collector(server, owner)
    assert "deletionTimestamp" not in (await server.get(at(NODES, owned)))["metadata"]
    await server.patch(at(CLAIMS, owner), {"metadata": {"finalizers": None}})
    await gone(server, NODES, owned)


async def test_foreground_deletion_waits_for_dependents(server: Server) -> None:
    """The owner has a finalizer until its dependent, which our finalizer keeps, is gone."""
    owner = await claim(server)
    owned = await node(server, ownerReferences=[owned_by(owner)], finalizers=["example.com/a"])
    await seen_by_the_collector(server, owner)
    deleted = await server.delete(at(CLAIMS, owner), {"propagationPolicy": "Foreground"})
    assert deleted["metadata"]["finalizers"] == ["foregroundDeletion"]
    async with server.stream(NODES, fieldSelector=f"metadata.name={owned['metadata']['name']}") as watch:
        await watch.until(lambda event: "deletionTimestamp" in event.object["metadata"])
    assert not await server.absent(at(CLAIMS, owner))
    await server.patch(at(NODES, owned), {"metadata": {"finalizers": None}})
    await gone(server, CLAIMS, deleted)


async def test_orphaned_dependents_stay(server: Server) -> None:
    """With propagationPolicy=Orphan the reference is removed, and the object stays."""
    owner = await claim(server)
    owned = await node(server, ownerReferences=[owned_by(owner)])
    await seen_by_the_collector(server, owner)
    deleted = await server.delete(at(CLAIMS, owner), {"propagationPolicy": "Orphan"})
    assert deleted["metadata"]["finalizers"] == ["orphan"]
    await gone(server, CLAIMS, deleted)
    found = await server.get(at(NODES, owned))
    assert "ownerReferences" not in found["metadata"]
    assert "deletionTimestamp" not in found["metadata"]


async def test_a_finalizer_keeps_a_collected_dependent(server: Server) -> None:
    """A collected dependent is marked, and is gone when its finalizer is removed, which we rely on for Nodes."""
    owner = await claim(server)
    owned = await node(server, ownerReferences=[owned_by(owner)], finalizers=["example.com/a"])
    await server.delete(at(CLAIMS, owner))
    async with server.stream(NODES, fieldSelector=f"metadata.name={owned['metadata']['name']}") as watch:
        event = await watch.until(lambda event: "deletionTimestamp" in event.object["metadata"])
    assert event.object["metadata"]["finalizers"] == ["example.com/a"]
    await server.patch(at(NODES, owned), {"metadata": {"finalizers": None}})
    assert await server.absent(at(NODES, owned))


async def test_a_namespaced_object_with_a_cluster_scoped_owner(server: Server) -> None:
    """A Lease whose owner is a Node is deleted with the Node, as each kubelet's is."""
    owner = await node(server)
    owned = await lease(server, ownerReferences=[owned_by(owner)])
    await server.delete(at(NODES, owner))
    await gone(server, LEASES, owned)
