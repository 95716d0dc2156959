"""When the garbage collector acts, and what the removal of a CRD does to its objects and their dependents."""

import asyncio
from datetime import UTC, datetime

import pytest

from provisioner.simulator import loop
from provisioner.simulator.kube.garbage_collector import Collector
from provisioner.simulator.kube.resources import CRD_KEY

from .stores import WIDGETS, Cluster, refused


def cluster():
    c = Cluster()
    uid = c.widget()["metadata"]["uid"]
    reference = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w1", "uid": uid}
    c.store.create("nodes", {"metadata": {"name": "n1", "ownerReferences": [reference]}})
    return c, Collector(c.store)


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
