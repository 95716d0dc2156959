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


def test_what_has_lost_its_owner_goes() -> None:
    """Background deletion: the owner first, then what it owned."""
    c, collector = cluster()
    assert collector.collect() == 0
    c.store.delete(WIDGETS, "w1")
    assert collector.collect() == 1
    assert c.store.get("nodes", "n1") is None


def test_one_living_owner_is_enough() -> None:
    """The lost one is forgotten."""
    c, collector = cluster()
    other = c.widget("w2")
    references = [*c.store.list("nodes")[0]["metadata"]["ownerReferences"], owned_by(other)]
    c.store.patch("nodes", "n1", {"metadata": {"ownerReferences": references}})
    c.store.delete(WIDGETS, "w1")
    collector.collect()
    node = c.store.get("nodes", "n1")
    assert node is not None
    assert [r["name"] for r in node["metadata"]["ownerReferences"]] == ["w2"]


def test_a_namesake_is_no_owner() -> None:
    """Owners are known by uid."""
    c, collector = cluster()
    c.store.delete(WIDGETS, "w1")
    c.widget()
    collector.collect()
    assert c.store.get("nodes", "n1") is None


def test_finalizers_are_honoured() -> None:
    """What is collected is deleted like everything else, and only once."""
    c, collector = cluster()
    c.store.patch("nodes", "n1", {"metadata": {"finalizers": ["karpenter.sh/termination"]}})
    c.store.delete(WIDGETS, "w1")
    assert (collector.collect(), collector.collect()) == (1, 0)
    node = c.store.get("nodes", "n1")
    assert node is not None
    assert "deletionTimestamp" in node["metadata"]


def test_foreground_deletion_waits_for_what_blocks_it() -> None:
    """The owner stays, deleting, until the blocking one is gone."""
    c, collector = cluster(blocks=True)
    c.store.patch("nodes", "n1", {"metadata": {"finalizers": ["example.com/f"]}})
    assert not c.store.delete(WIDGETS, "w1", policy="Foreground").gone
    collector.collect()
    assert [o["metadata"]["finalizers"] for o in c.store.list(WIDGETS)] == [["foregroundDeletion"]]
    c.store.patch("nodes", "n1", {"metadata": {"finalizers": None}})
    collector.collect()
    assert (c.store.list(WIDGETS), c.store.list("nodes")) == ([], [])


def test_orphaning_forgets_the_owner_first() -> None:
    """What it owned stays and knows nothing of it."""
    c, collector = cluster()
    c.store.delete(WIDGETS, "w1", policy="Orphan")
    collector.collect()
    node = c.store.get("nodes", "n1")
    assert node is not None
    assert (c.store.list(WIDGETS), "ownerReferences" in node["metadata"]) == ([], False)


def test_a_crd_takes_its_objects_along_and_goes_last() -> None:
    """Their finalizers are waited for, nothing new is let in, and then the kind is not served any more."""
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


def test_owners_of_an_unknown_kind_keep_what_they_own() -> None:
    """A removed CRD must not cost the Nodes: who cannot look does not delete."""
    c, collector = cluster()
    c.store.patch(CRD_KEY, WIDGETS, {"metadata": {"finalizers": None}})
    c.store.delete(CRD_KEY, WIDGETS)
    assert collector.collect() == 0
    assert c.store.get("nodes", "n1") is not None


def test_a_namespace_takes_its_contents_along() -> None:
    """Terminating while they end; nothing new is let in."""
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
def test_it_acts_a_moment_later_by_itself(running) -> None:
    """Half a second after the cause, on the loop's timer; not before it is started, nor once it is stopped."""

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
