"""The interfaces of a world: in-memory network, loopback sockets, hooks and audit log."""

import asyncio
import json
import stat
import sys
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from provisioner.simulator import loop as sim
from provisioner.simulator.audit_log import AuditLog, Target, target_of
from provisioner.simulator.world import KUBE_HOST, World

from .histories import EPOCH, a_world, run_in_world

NODES = "/api/v1/nodes"
KUBECTL = Path(sys.executable).with_name("kubectl")
SCOPE = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.ContainerService/managedClusters/aks"


def test_a_world_has_foreign_pools() -> None:
    """Foreign pools and their Nodes exist from the start."""

    async def story(world):
        await asyncio.sleep(120)
        return sorted(world.cloud.pools), [n["metadata"]["labels"]["agentpool"] for n in world.store.list("nodes")]

    assert run_in_world(story) == (["system", "theirs"], ["system", "theirs"])


def test_the_audit_log_has_callers_verbs_objects_and_statuses() -> None:
    """A change refers to the call that made it."""

    async def story(world):
        person = world.session("anna")
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
        for method, path, data in (("POST", NODES, body), ("GET", NODES, None), ("DELETE", f"{NODES}/n1", None)):
            async with person.request(method, path, json=data):
                pass
        async with person.get(f"{NODES}/n1"):
            pass
        mine = world.audit_log.calls(who="anna")
        gone = [change for change in world.audit_log.changes(kind="node") if change.name == "n1"][-1]
        return [(c.verb, c.target.kind, c.target.name, c.status) for c in mine], gone.what, gone.call.number

    calls, what, number = run_in_world(story)
    assert calls == [
        ("POST", "nodes", "", 201),
        ("LIST", "nodes", "", 200),
        ("DELETE", "nodes", "n1", 200),
        ("GET", "nodes", "n1", 404),
    ]
    assert (what, number) == ("gone", 3)


def test_a_dropped_response_has_status_0() -> None:
    """The server closed the connection."""

    async def story(world):
        async def drop(_call, request) -> None:
            request.transport.close()

        world.before.append(drop)
        with pytest.raises(aiohttp.ClientError):
            await world.session("anna").post(NODES, json={})
        return [call.status for call in world.audit_log.calls(who="anna")]

    assert run_in_world(story) == [0]


def test_a_before_hook_may_answer_instead() -> None:
    """The hook's response replaces the server's, and the call has no effect."""

    async def story(world):
        async def refuse(_call, _request):
            return web.Response(status=503)

        world.before.append(refuse)
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
        async with world.session("anna").post(NODES, json=body) as response:
            return response.status, world.store.get("nodes", "n1")

    assert run_in_world(story) == (503, None)


def test_an_after_hook_runs_between_effect_and_response() -> None:
    """After hooks run between the effect and the answer."""

    async def story(world):
        seen = []

        async def look(call, response) -> None:
            seen.append((call.verb, response.status, world.store.get("nodes", "n1") is not None))

        world.after.append(look)
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
        async with world.session("anna").post(NODES, json=body):
            return seen

    assert run_in_world(story) == [("POST", 201, True)]


def test_a_world_with_a_token_requires_it() -> None:
    """Sessions of users have the world's token; other requests are rejected."""

    async def story(world):
        async with world.session("anna").get(NODES) as let_in:
            pass
        async with (
            aiohttp.ClientSession(connector=world.connector("eve")) as eve,
            eve.get(f"http://{KUBE_HOST}{NODES}") as refused,
        ):
            return let_in.status, refused.status

    assert run_in_world(story, token="sesame") == (200, 401)


def test_a_failure_of_the_simulated_cloud_ends_the_world() -> None:
    """The story ends at once, with that error."""

    async def story(world) -> None:
        world.cloud.scheduler.after(5, lambda: 1 / 0)
        await asyncio.sleep(60)

    with pytest.raises(ExceptionGroup) as caught:
        run_in_world(story)
    assert caught.group_contains(ZeroDivisionError)


PATHS = [
    ("kube", "GET", "/api/v1/nodes/n1", Target("nodes", "n1")),
    ("kube", "POST", "/api/v1/namespaces/d/pods/p/eviction", Target("pods", "p", "eviction")),
    ("kube", "PATCH", "/apis/karpenter.sh/v1/nodeclaims/c/status", Target("nodeclaims", "c", "status")),
    ("kube", "PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l", Target("leases", "l")),
    ("kube", "GET", "/version", Target("/version")),
    ("arm", "GET", SCOPE, Target("cluster")),
    ("arm", "GET", f"{SCOPE}/agentPools", Target("pools")),
    ("arm", "PUT", f"{SCOPE}/agentPools/p", Target("pools", "p")),
    ("arm", "POST", f"{SCOPE}/agentPools/p/abort", Target("pools", "p", "abort")),
]


@pytest.mark.parametrize(("system", "method", "path", "target"), PATHS)
def test_paths_are_parsed_to_targets(system, method, path, target) -> None:
    """A path of either system becomes a kind, a name and a subresource."""
    assert target_of(system, method, path) == target


def test_a_watch_is_no_list() -> None:
    """GET of a collection is a LIST, or a WATCH if the query requests one."""
    audit_log = AuditLog()
    verbs = [audit_log.arrive(0, "a", "kube", "GET", NODES, watch=watch).verb for watch in (False, True)]
    assert [*verbs, audit_log.arrive(0, "a", "arm", "GET", SCOPE).verb] == ["LIST", "WATCH", "GET"]


@pytest.mark.asyncio
async def test_a_world_listens_on_loopback(tmp_path) -> None:
    """Both systems listen on free ports; only its owner can read the kubeconfig, and the real kubectl works with it."""
    async with a_world() as world:
        addresses = await world.listen()
        config = tmp_path / "kubeconfig"
        world.write_kubeconfig(config, addresses)
        assert stat.S_IMODE(config.stat().st_mode) == 0o600
        kubectl = await asyncio.create_subprocess_exec(
            KUBECTL, "--kubeconfig", config, "get", "namespaces", "-o", "json", stdout=asyncio.subprocess.PIPE
        )
        out, _ = await kubectl.communicate()
        assert kubectl.returncode == 0
        assert "kube-system" in {item["metadata"]["name"] for item in json.loads(out)["items"]}
        assert world.audit_log.calls(who="kubectl", verb="LIST", kind="namespaces")


@pytest.mark.asyncio
async def test_urls_on_a_socket_are_plain_http() -> None:
    """On a socket, ARM's URLs are those of the socket; in memory, which stands for TLS, they are https."""
    async with a_world() as world, aiohttp.ClientSession() as session:
        addresses = await world.listen()
        account = world.cloud.settings.cluster_id
        url = f"{addresses.arm}{account}/agentPools/gpu1?api-version=2026-08-01"
        body = {"properties": {"count": 1, "vmSize": "Standard_NC24ads_A100_v4"}}
        async with session.put(url, json=body, headers={"Authorization": "Bearer x"}) as response:
            assert response.headers["Azure-AsyncOperation"].startswith(addresses.arm)
        async with aiohttp.ClientSession(connector=world.connector("anna")) as anna:
            url = f"https://management.azure.com{account}/agentPools/gpu2?api-version=2026-08-01"
            async with anna.put(url, json=body, headers={"Authorization": "Bearer x"}) as response:
                assert response.headers["Azure-AsyncOperation"].startswith("https://management.azure.com/")


def test_a_world_must_be_entered() -> None:
    """Processes can be started only inside the world."""

    async def main() -> None:
        clock = sim.VirtualClock(asyncio.get_running_loop(), EPOCH)
        with pytest.raises(RuntimeError, match="used outside `async with`"):
            _ = World(crds=[], now=clock.now).tasks

    sim.run(main, seed=1, epoch=EPOCH)
