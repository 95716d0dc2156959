"""The scheduler of a world: pods, from their creation to Running, and what many pods cost.

Where pods are bound is in tests/cluster/conformance/test_scheduling.py, for this scheduler and for kube-scheduler.
"""

import asyncio
from collections.abc import Callable, Coroutine
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from provisioner.api.labels import ZONE
from provisioner.simulator import loop
from provisioner.simulator.kube.store import Store
from provisioner.simulator.scheduling.pod_scheduler import REPORT_SECONDS, PodScheduler
from provisioner.simulator.scheduling.requests import pod_requests, quantity
from provisioner.simulator.scheduling.volumes import BOUND, DISK_ZONE
from tests.stories import run_by

from .histories import run_in_world
from .kube.stores import BEGIN

Json = dict[str, Any]


def pod(name: str, **requests: str) -> Json:
    container = {"name": "main", "image": "none", "resources": {"requests": requests}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def node(name: str, cpu: str = "4", pods: str = "10", taints: list[Json] | None = None) -> Json:
    status = {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": pods}}
    return {"metadata": {"name": name}, "spec": {"taints": taints or []}, "status": status}


def messages(at: "Writes") -> set[str]:
    """The messages of the pods that are not bound."""
    found = [one["status"].get("conditions") or [] for one in at.store.list("pods", fields="spec.nodeName=")]
    return {c["message"] for conditions in found for c in conditions if c["type"] == "PodScheduled"}


def virtually(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop.run(story, seed=1, epoch=BEGIN, horizon_seconds=3600)


class Writes:
    """A store with a scheduler, and what is written to it."""

    def __init__(self) -> None:
        self.store = Store(lambda: BEGIN, seed_uid=Random(1))
        self.scheduler = PodScheduler(self.store)
        self.kinds: list[str] = []
        self.store.subscribe(lambda kind, resource, obj, before: self.kinds.append(resource))
        self.scheduler.start()

    def ready_node(self, name: str, **fields: Any) -> None:
        """A Node without the taint that a new one gets."""
        self.store.create("nodes", node(name, **fields))
        self.store.patch("nodes", name, {"spec": {"taints": fields.get("taints")}})


def test_a_pod_runs_in_a_world_and_is_collected_with_its_node() -> None:
    """A pending pod is bound and runs; after its Node is deleted with the machine, so is the pod."""

    async def story(world: Any) -> list[tuple[str, str]]:
        found = []
        await asyncio.sleep(120)
        world.store.create("pods", pod("a", cpu="1"))
        await asyncio.sleep(10)
        running = world.store.get("pods", "a", "default")
        found.append((running["status"]["phase"], running["spec"]["nodeName"]))
        for name in ("theirs", "system"):
            world.cloud.lifecycle.delete(name)
        await asyncio.sleep(1200)
        found.append(("pods", str(len(world.store.list("pods")))))
        return found

    running, left = run_in_world(story)
    assert running[0] == "Running"
    assert running[1].startswith("aks-")
    assert left == ("pods", "0")


@run_by(virtually)
async def test_without_pending_pods_nothing_is_written() -> None:
    """Changes of Nodes and of bound pods cause no work of the scheduler."""
    at = Writes()
    at.ready_node("n1")
    at.store.create("pods", {**pod("a"), "spec": {**pod("a")["spec"], "nodeName": "n1"}})
    await asyncio.sleep(0.2)
    assert at.kinds == ["nodes", "nodes", "pods"]


@run_by(virtually)
async def test_a_changed_message_is_reported_later() -> None:
    """Each pod gets its first message at once; while Nodes come and go, the next one only after some seconds."""
    at = Writes()
    for name in "abc":
        at.store.create("pods", pod(name, cpu="8"))
    await asyncio.sleep(0.2)
    assert at.kinds.count("events") == 3
    for name in ("n1", "n2"):
        at.ready_node(name)
        await asyncio.sleep(0.2)
    assert at.kinds.count("events") == 3
    assert messages(at) == {"no nodes available to schedule pods"}
    await asyncio.sleep(REPORT_SECONDS)
    assert at.kinds.count("events") == 6
    assert [words.partition(":")[0] for words in messages(at)] == ["0/2 nodes are available"]


@run_by(virtually)
async def test_many_pods_fill_their_nodes() -> None:
    """300 equal pods on 20 Nodes with 10 places: each place is used once, and the others give one message."""
    at = Writes()
    for number in range(300):
        at.store.create("pods", pod(f"p{number:03}", cpu="100m"))
    for number in range(20):
        at.ready_node(f"n{number:02}")
    at.scheduler.schedule()
    pods = at.store.list("pods")
    nodes = [one["spec"].get("nodeName", "") for one in pods]
    assert {name: nodes.count(name) for name in set(nodes)} == {"": 100, **{f"n{n:02}": 10 for n in range(20)}}
    (words,) = messages(at)
    assert "0/20 nodes are available: 20 Too many pods." in words


@pytest.mark.parametrize(
    ("text", "number"), [("100m", "0.1"), ("1Ki", "1024"), ("2G", "2e9"), ("1e3", "1000"), (3, "3"), ("5E", "5e18")]
)
def test_quantities(text: str | int, number: str) -> None:
    """Decimal and binary suffixes, and exponents."""
    assert quantity(text) == Decimal(number)


def test_the_overhead_of_a_pod_counts() -> None:
    """Overhead is added to the sum of the containers; requests of 0 count for nothing."""
    spec = {**pod("a", cpu="1", memory="0")["spec"], "overhead": {"cpu": "250m"}}
    assert pod_requests(spec) == {"cpu": Decimal("1.25")}


@pytest.mark.parametrize(
    ("bound", "zone", "words"),
    [
        (True, "e-1", ""),
        (True, "e-2", "1 node(s) didn't match PersistentVolume's node affinity"),
        (False, "e-1", "1 pod has unbound immediate PersistentVolumeClaims"),
    ],
)
def test_a_disk_is_attached_in_its_zone_once_it_is_bound(bound: bool, zone: str, words: str) -> None:
    """A pod with a disk of zone e-1 runs on a Node there; until its claim is bound, on none."""

    async def story() -> None:
        at = Writes()
        terms = [{"matchExpressions": [{"key": DISK_ZONE, "operator": "In", "values": [zone]}]}]
        volume = {"metadata": {"name": "v"}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}
        at.store.create("persistentvolumes", volume)
        claim = {"metadata": {"name": "c", "annotations": {BOUND: "yes"} if bound else {}}, "spec": {"volumeName": "v"}}
        at.store.create("persistentvolumeclaims", claim, "default")
        one = pod("a", cpu="1")
        one["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
        at.store.create("pods", one)
        at.ready_node("n1")
        at.store.patch("nodes", "n1", {"metadata": {"labels": {ZONE: "e-1"}}})
        at.scheduler.schedule()
        assert not words or any(words in found for found in messages(at))
        assert ("nodeName" in at.store.list("pods")[0]["spec"]) == (not words)

    virtually(story)
