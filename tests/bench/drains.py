"""A hundred Nodes with thirty pods each that are drained at once: stalls of the event loop, and requests to the API
server.

Every pod is evicted exactly once (asserted); the stalls of the loop and the number of reads of pods and attachments are
reported.
"""

import asyncio
import json

from provisioner.api import labels
from provisioner.simulator.audit_log import Call

from .figures import Figure, percentile
from .moments import CONTROLLER
from .stage import Stage, names, stage

NODES, PODS = 100, 30
# A tenth of a Node's pods belong to a DaemonSet: they are evicted after the others.
DAEMONS = 3


async def measure() -> list[Figure]:
    """About 60 s."""
    wanted = names("drain", NODES)
    async with stage() as on:
        stalls_file = on.folder / "stalls.json"
        async with on.controller(stalls_file=stalls_file):
            await on.leading()
            await on.create(wanted)
            await on.settled(wanted, within_seconds=120.0)
            await _crowd(on)
            begun = asyncio.get_running_loop().time()
            await on.delete(wanted)
            await on.until(lambda: not _left(on), 120.0, "every pod has left")
            ended = asyncio.get_running_loop().time()
        stalls = [seconds for at, seconds in json.loads(stalls_file.read_text()) if begun <= at <= ended]
        evictions = [call for call in _calls(on, "POST", "pods", begun) if call.status == 201]
    twice = len(evictions) - len({call.target.name for call in evictions})
    reads = len(_calls(on, "LIST", "pods", begun))
    return [
        Figure(
            name=f"{NODES} Nodes with {PODS} pods each drained at once: loop stalls",
            unit="ms",
            labels=("p50", "p99", "max"),
            target=(50.0, 50.0),
            measured=(1e3 * percentile(stalls, 0.5), 1e3 * percentile(stalls, 0.99), 1e3 * max(stalls)),
            note=f"{len(stalls)} questions in {ended - begun:.0f} s",
        ),
        Figure(
            name="pods that were not evicted exactly once",
            unit="pods",
            labels=("",),
            target=(0,),
            measured=(abs(NODES * PODS - len(evictions)) + twice,),
            asserted=True,
            note=f"{len(evictions)} evictions",
        ),
        Figure(
            name="LISTs of a Node's pods, of all attachments",
            unit="requests",
            labels=("pods", "attachments"),
            measured=(reads, len(_calls(on, "LIST", "volumeattachments", begun))),
            note=f"{reads / NODES:.0f} a drain",
        ),
    ]


async def _crowd(on: Stage) -> None:
    """Create thirty running pods on each Node."""
    store = on.world.store
    store.create("daemonsets.apps", {"metadata": {"name": "d"}}, "default")
    uid = store.get("daemonsets.apps", "d", "default")["metadata"]["uid"]
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": uid, "controller": True}
    for node in store.list("nodes"):
        pool = node["metadata"]["labels"].get(labels.AKS_AGENTPOOL, "")
        if labels.CLAIM_UID not in node["metadata"]["labels"]:
            continue
        for number in range(PODS):
            name = f"{pool}-{number:02d}"
            meta = {"name": name, "ownerReferences": [owner] if number < DAEMONS else []}
            spec = {
                "nodeName": node["metadata"]["name"],
                "terminationGracePeriodSeconds": 2 + number % 9,
                "containers": [{"name": "c", "image": "i"}],
            }
            store.create("pods", {"metadata": meta, "spec": spec}, "default")
            store.patch("pods", name, {"status": {"phase": "Running"}}, "default", subresource="status")
        await asyncio.sleep(0)


def _left(on: Stage) -> bool:
    return next(iter(on.world.store.each("pods")), None) is not None


def _calls(on: Stage, verb: str, kind: str, since: float) -> list[Call]:
    return [call for call in on.world.audit_log.calls(who=CONTROLLER, verb=verb, kind=kind) if call.at >= since]
