"""Large and deeply nested objects on the real API server: its paging, its metadata-only responses and its watch."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from provisioner.api.pod import Pod
from provisioner.runtime.connection import build_api_client
from provisioner.runtime.kept import identity
from provisioner.runtime.kube import Kube
from provisioner.runtime.reflector import Reflector
from provisioner.runtime.resources import PODS, RESOURCECLAIMS
from provisioner.runtime.transport import RESPONSE_BYTES
from tests.unit.runtime.kube_server import seeded

from . import assets
from .controlplane import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio]

NAMESPACE = "/api/v1/namespaces/default"
LARGE = 12
# The decoder follows about 990 levels under Python 3.11 and 9,990 later; a Pod may have 9,994 there.
DEPTHS = (1500, 9994)


async def create(cp: ControlPlane, name: str, size: int) -> None:
    """A pod with so many bytes that JSON has six times as many of."""
    env = [{"name": "A", "value": "<" * size}]
    spec = {"containers": [{"name": "c", "image": "i", "env": env}], "nodeSelector": {"a": name}}
    await cp.demand("POST", f"{NAMESPACE}/pods", {"metadata": {"name": name}, "spec": spec})


async def create_json(cp: ControlPlane, path: str, body: str) -> None:
    """Create an object whose JSON the encoder cannot write."""
    headers = {"Content-Type": "application/json"}
    async with cp.session() as session, session.post(path, data=body, headers=headers) as response:
        assert response.status == 201, await response.text()


def nested_pod(depth: int) -> str:
    fields = '{"f:a":' * depth + "{}" + "}" * depth
    managed = f'{{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{fields}}}'
    return (
        f'{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"deep{depth}","managedFields":[{managed}]}},'
        '"spec":{"containers":[{"name":"c","image":"i"}]}}'
    )


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(300):
        while not true():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("bytes_max", [RESPONSE_BYTES, 2**20], ids=["as in production", "with a limit of 1 MiB"])
async def test_large_pods_hide_no_other_one(tmp_path: Path, bytes_max: int) -> None:
    """12 pods of 6 MB are more than a response has; one above the limit is known by its metadata, in a watch too."""
    async with ControlPlane.start(assets.find(), tmp_path) as cp:
        await cp.request("POST", f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
        for number in range(LARGE):
            await create(cp, f"large{number}", 1_000_000)
        await create(cp, "good", 1)
        connection = await build_api_client(str(cp.kubeconfig(tmp_path / "kubeconfig")), version="test")
        cache: Reflector[Pod] = Reflector(
            Kube(connection.api_client, bytes_max=bytes_max), PODS, rng=seeded(), indexes={}
        )
        task = asyncio.create_task(cache.run())
        try:
            await until(lambda: cache.synced)
            await create(cp, "large-later", 1_000_000)
            await create(cp, "good-later", 1)
            await until(lambda: cache.get("default/good-later"))
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await connection.close()
        found = {one.metadata.name: one for one in cache.items()}
        assert len(found) == LARGE + 3
        assert {name for name, one in found.items() if one.metadata.unreadable} == (
            set() if bytes_max == RESPONSE_BYTES else {*(f"large{number}" for number in range(LARGE)), "large-later"}
        )
        assert found["good"].spec.node_selector == {"a": "good"}
        assert all(one.metadata.uid for one in found.values())
        assert cache.last_error is None


async def test_nested_objects_hide_no_other_one(tmp_path: Path) -> None:
    """Pods with nested managedFields in a watch, a list and a get; a ResourceClaim with nested opaque parameters."""
    parameters = "[" * 4800 + "]" * 4800
    claim = (
        '{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"deep"},"spec":{"devices":{'
        '"requests":[{"name":"r","exactly":{"deviceClassName":"x"}}],"config":[{"opaque":{"driver":"d.example.com",'
        f'"parameters":{{"a":{parameters}}}}}}}]}}}}}}'
    )
    async with ControlPlane.start(assets.find(), tmp_path) as cp:
        await cp.request("POST", f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
        await create(cp, "good", 1)
        connection = await build_api_client(str(cp.kubeconfig(tmp_path / "kubeconfig")), version="test")
        kube = Kube(connection.api_client)
        cache: Reflector[Pod] = Reflector(kube, PODS, rng=seeded(), indexes={})
        task = asyncio.create_task(cache.run())
        try:
            await until(lambda: cache.synced)
            for depth in DEPTHS:
                await create_json(cp, f"{NAMESPACE}/pods", nested_pod(depth))
            await create(cp, "good-later", 1)
            await until(lambda: cache.get("default/good-later"))
            names = ["deep1500", "deep9994", "good", "good-later"]
            assert sorted(one.metadata.name for one in cache.items()) == names
            assert [one.metadata.name for one in (await kube.list(PODS, digest=identity)).items] == names
            assert (await kube.get(PODS, "deep9994", namespace="default")).metadata.uid
            assert cache.last_error is None
            await create_json(cp, "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", claim)
            assert [one.metadata.name for one in (await kube.list(RESOURCECLAIMS, digest=identity)).items] == ["deep"]
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await connection.close()
