"""Reads of objects of tenants: memory depends on what is kept of them, not on what tenants write."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import msgspec
import pytest

from controllers.actuator.devices import read_devices
from controllers.actuator.pod_reads import PodReads
from controllers.actuator.storage import read_storage
from controllers.actuator.workloads import WorkloadReader
from controllers.model.steps import LookUpWorkloads
from provisioner.api.namespace import NamespaceDigest
from provisioner.runtime.kube import Kube
from provisioner.runtime.kube_errors import KubeError, too_large
from provisioner.runtime.resources import NAMESPACES
from provisioner.runtime.transport import RESPONSE_BYTES, Request, Transport
from tests.unit.builders import NOW, node

ENTRIES, OBJECTS, PAGE = 20_000, 100, 6
# The chart's limit of memory is 512 MiB, of which an idle controller uses about 90.
MIB_MOST = 300
KINDS = {
    "namespaces": "Namespace",
    "pods": "Pod",
    "daemonsets": "DaemonSet",
    "resourceclaims": "ResourceClaim",
    "resourceclaimtemplates": "ResourceClaimTemplate",
    "deviceclasses": "DeviceClass",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "storageclasses": "StorageClass",
}


SOCKETS = "/var/lib/kubelet/device-plugins"


def filled() -> bytes:
    """Megabytes in all that a tenant may write of an object, of each kind together; NNNN is its number."""
    many = [f"xNNNN-{entry:020}" for entry in range(ENTRIES)]
    few = many[: ENTRIES // 4]
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "uid": few[0]}
    container = {"name": "c", "env": [{"name": one, "value": "x"} for one in few]}
    requests = [{"name": one, "exactly": {"deviceClassName": "c"}} for one in few]
    spec = {
        "nodeName": "nNNNN",
        "tolerations": [{"key": one, "operator": "Exists"} for one in few],
        "volumes": [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in few],
        "accessModes": ["ReadWriteOnce"] * len(few),
        "template": {"spec": {"containers": [container], "volumes": [{"hostPath": {"path": SOCKETS}}]}},
        "devices": {"requests": requests},
        "spec": {"devices": {"requests": requests}},
    }
    meta = {
        "name": "nNNNN",
        "namespace": "evil",
        "uid": "uNNNN",
        "resourceVersion": "1",
        "labels": dict.fromkeys(many, ""),
        "ownerReferences": [{**owner, "name": one} for one in few],
    }
    return msgspec.json.encode({"metadata": meta, "spec": spec})


class Server:
    """An API server that makes its pages when they are requested."""

    bytes_max = RESPONSE_BYTES

    def __init__(self) -> None:
        self._object = filled()

    async def send(self, request: Request) -> bytes:
        query = dict(request.query)
        first, limit = int(query.get("continue", 0)), int(query["limit"])
        if limit > PAGE:
            raise too_large(request.what, self.bytes_max)
        last = min(OBJECTS, first + limit)
        meta = {"resourceVersion": "1", **({"continue": str(last)} if last < OBJECTS else {})}
        items = [msgspec.Raw(self._object.replace(b"NNNN", b"%04d" % number)) for number in range(first, last)]
        page = msgspec.json.encode({"kind": f"{KINDS[request.kind]}List", "metadata": meta, "items": items})
        assert len(page) < self.bytes_max
        return page


async def namespaces(kube: Kube) -> tuple[object, int]:
    found = (await kube.list(NAMESPACES, digest=NamespaceDigest())).items
    return found, len(found)


async def resource_claims(kube: Kube) -> tuple[object, int]:
    found = await read_devices(kube, frozenset(f"evil/n{one:04}" for one in range(OBJECTS)))
    assert len(found.templates) == OBJECTS
    return found, len(found.claims)


async def volume_claims(kube: Kube) -> tuple[object, int]:
    found = await read_storage(kube, frozenset(f"evil/n{one:04}" for one in range(OBJECTS)))
    return found, len(found.claims)


async def drains(kube: Kube) -> tuple[object, int]:
    """All Nodes, whose pods are read in one LIST."""
    reads = PodReads(kube, nodes=lambda: float(OBJECTS))
    read = await asyncio.gather(*(reads.on(f"n{number:04}") for number in range(OBJECTS)))
    return read, len({pod.metadata.uid for pods in read for pod in pods})


async def workloads(kube: Kube) -> tuple[object, int]:
    step = LookUpWorkloads(node=node(name="n0000"), source="nvidia.com/gpu", since=NOW)
    found = await WorkloadReader(kube).read(step)
    return found, len(found.pods)


STORIES: dict[str, Callable[[Kube], Awaitable[tuple[object, int]]]] = {
    one.__name__: one for one in (namespaces, resource_claims, volume_claims, drains, workloads)
}


@pytest.mark.parametrize("name", STORIES)
def test_objects_of_tenants_decide_no_memory(name: str) -> None:
    """100 objects of 2 MB, of which all are known."""
    command = [sys.executable, "-m", __name__, name]
    out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    known, mib = map(int, out.stdout.split())
    assert known == OBJECTS
    assert mib < MIB_MOST


def peak_mib() -> int:
    """The maximum that getrusage returns would include the process that started this one."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


async def measured(name: str) -> None:
    kube = object.__new__(Kube)
    kube._transport = cast("Transport", Server())
    try:
        _kept, known = await STORIES[name](kube)
    except KubeError as error:
        sys.exit(str(error))
    print(known, peak_mib())


if __name__ == "__main__":
    asyncio.run(measured(sys.argv[1]))
