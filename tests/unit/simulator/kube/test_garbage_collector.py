"""The garbage collector, and the finalization of namespaces and CRDs."""

import asyncio
from datetime import UTC, datetime

import pytest

from provisioner.simulator import loop
from provisioner.simulator.kube.garbage_collector import Collector
from provisioner.simulator.kube.resources import CRD_KEY

from .stores import WIDGETS, Cluster, refused


def owned_by(owner, *, blocks=False):
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "blockOwnerDeletion": blocks,
    }


def cluster(*, blocks=False):
    c = Cluster()
    owner = c.widget()
    c.store.create("nodes", {"metadata": {"name": "n1", "ownerReferences": [owned_by(owner, blocks=blocks)]}})
    return c, Collector(c.store)


def test_dependents_are_deleted_after_their_owner() -> None:
    """Background deletion: the owner first, then its dependents."""
    c, collector = cluster()
    assert collector.collect() == 0
    c.store.delete(WIDGETS, "w1")
    assert collector.collect() == 1
    assert c.store.get("nodes", "n1") is None


def test_one_existing_owner_is_enough() -> None:
    """The reference to the missing owner is removed."""
    c, collector = cluster()
    other = c.widget("w2")
    references = [*c.store.list("nodes")[0]["metadata"]["ownerReferences"], owned_by(other)]
    c.store.patch("nodes", "n1", {"metadata": {"ownerReferences": references}})
    c.store.delete(WIDGETS, "w1")
    collector.collect()
    node = c.store.get("nodes", "n1")
    assert node is not None
    assert [r["name"] for r in node["metadata"]["ownerReferences"]] == ["w2"]


def test_an_owner_is_identified_by_its_uid() -> None:
    """An object of the same name is not the owner."""
    c, collector = cluster()
    c.store.delete(WIDGETS, "w1")
    c.widget()
    collector.collect()
    assert c.store.get("nodes", "n1") is None


def test_finalizers_are_honoured() -> None:
    """A dependent is deleted like any other object, and only once."""
    c, collector = cluster()
    c.store.patch("nodes", "n1", {"metadata": {"finalizers": ["karpenter.sh/termination"]}})
    c.store.delete(WIDGETS, "w1")
    assert (collector.collect(), collector.collect()) == (1, 0)
    node = c.store.get("nodes", "n1")
    assert node is not None
    assert "deletionTimestamp" in node["metadata"]


def test_foreground_deletion_waits_for_blocking_dependents() -> None:
    """The owner remains, deleting, until the blocking dependent is gone."""
    c, collector = cluster(blocks=True)
    c.store.patch("nodes", "n1", {"metadata": {"finalizers": ["example.com/f"]}})
    assert not c.store.delete(WIDGETS, "w1", policy="Foreground").gone
    collector.collect()
    assert [o["metadata"]["finalizers"] for o in c.store.list(WIDGETS)] == [["foregroundDeletion"]]
    c.store.patch("nodes", "n1", {"metadata": {"finalizers": None}})
    collector.collect()
    assert (c.store.list(WIDGETS), c.store.list("nodes")) == ([], [])


def test_orphaning_removes_the_owner_references_first() -> None:
    """The dependents remain without an owner reference."""
    c, collector = cluster()
    c.store.delete(WIDGETS, "w1", policy="Orphan")
    collector.collect()
    node = c.store.get("nodes", "n1")
    assert node is not None
    assert (c.store.list(WIDGETS), "ownerReferences" in node["metadata"]) == ([], False)


def test_a_crd_is_deleted_after_its_objects() -> None:
    """Their finalizers are waited for, new objects are rejected, and then the kind is no longer served."""
    c = Cluster()
    collector = Collector(c.store)
    c.widget("held", finalizers=["karpenter.sh/termination"])
    c.widget("free")
    c.store.delete(CRD_KEY, WIDGETS)
    collector.collect()
    assert [(o["metadata"]["name"], "deletionTimestamp" in o["metadata"]) for o in c.store.list(WIDGETS)] == [
        ("held", True)
    ]
    assert refused(lambda: c.widget("new")).status == 405
    c.store.patch(WIDGETS, "held", {"metadata": {"finalizers": None}})
    collector.collect()
    assert c.store.get(CRD_KEY, WIDGETS) is None
    assert refused(lambda: c.store.list(WIDGETS)).status == 404


def test_dependents_of_an_unserved_kind_are_kept() -> None:
    """The removal of a CRD must not delete Nodes: an owner that cannot be read is not missing."""
    c, collector = cluster()
    c.store.patch(CRD_KEY, WIDGETS, {"metadata": {"finalizers": None}})
    c.store.delete(CRD_KEY, WIDGETS)
    assert collector.collect() == 0
    assert c.store.get("nodes", "n1") is not None


def test_a_namespace_is_deleted_after_its_contents() -> None:
    """It is Terminating meanwhile, and new objects are rejected."""
    c = Cluster()
    collector = Collector(c.store)
    c.store.create("namespaces", {"metadata": {"name": "team"}})
    c.store.create("pods", {"metadata": {"name": "p"}, "spec": {"nodeName": "n1"}}, "team")
    c.store.delete("namespaces", "team")
    collector.collect()
    (team,) = c.store.list("namespaces", fields="metadata.name=team")
    assert team["status"]["phase"] == "Terminating"
    assert refused(lambda: c.store.create("pods", {"metadata": {"name": "q"}}, "team")).status == 403
    c.store.delete("pods", "p", "team", grace=0)
    collector.collect()
    assert c.store.get("namespaces", "team") is None


@pytest.mark.parametrize("running", [True, False])
def test_it_acts_half_a_second_later(running) -> None:
    """By a timer of the loop; not before it is started, nor after it is stopped."""

    async def main():
        c, collector = cluster()
        collector.start()
        if not running:
            collector.stop()
        c.store.delete(WIDGETS, "w1")
        await asyncio.sleep(0.4)
        early = c.store.get("nodes", "n1")
        await asyncio.sleep(0.2)
        late = c.store.get("nodes", "n1")
        collector.stop()
        return early is not None, late is not None

    assert loop.run(main, seed=1, epoch=datetime(2026, 1, 1, tzinfo=UTC)) == (True, not running)
