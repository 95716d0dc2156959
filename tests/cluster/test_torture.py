"""Failures of the real API server, and their effect on the program.

The guarantees of `inprocess.proven` hold after every test.
"""

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from provisioner.runtime.connection import build_api_client
from provisioner.runtime.kept import whole
from provisioner.runtime.kube import Kube
from provisioner.runtime.resources import NODES
from tests.world.harness import node_claim

from .bystanders import CLAIMS_PATH, MERGE, NODES_PATH, Hand, at_once, bulky_node, crowd_name, user_client
from .controlplane import NAMESPACE, SERVICE_ACCOUNT, ControlPlane
from .inprocess import proven

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio]

Json = dict[str, Any]


async def test_a_paged_list_is_complete_under_compaction(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A list in pages under compactions and writes has each Node once, or starts again."""
    count, rounds, compactions = 400, 8, 0
    async with user_client(cluster) as hand:
        await at_once([partial(hand.demand, "POST", NODES_PATH, bulky_node(n)) for n in range(count)])
        async with proven(cluster, tmp_path, claims=False) as made, asyncio.TaskGroup() as tasks:

            async def disturb() -> None:
                nonlocal compactions
                for number in itertools.count():
                    label = {"metadata": {"labels": {"disturbed": str(number)}}}
                    await hand.demand("PATCH", f"{NODES_PATH}/{crowd_name(number % count)}", label, MERGE)
                    await cluster.compact_etcd()
                    compactions = number + 1

            disturbing = tasks.create_task(disturb())
            for _ in range(rounds):
                listed = await made.kube.list(NODES, digest=whole, limit=20)
                assert sorted(node.name for node in listed.items) == [crowd_name(n) for n in range(count)]
                versions = {int(node.metadata.resource_version) for node in listed.items}
                assert max(versions) <= int(listed.resource_version)
            disturbing.cancel()
            pages = made.answers["list", "nodes", 200]
        await hand.demand("DELETE", NODES_PATH)
    with capsys.disabled():
        print(f"\n{rounds} lists in {pages} pages while etcd was compacted {compactions} times")


async def test_an_expired_page_restarts_the_list(cluster: ControlPlane, tmp_path: Path) -> None:
    """When the server restarts and etcd is compacted between two pages, the list gets a 410 and starts again."""
    count, seen = 30, list[int]()

    async def forget() -> None:
        await cluster.demand("DELETE", f"{NODES_PATH}/{crowd_name(0)}")
        await cluster.compact_etcd()
        await cluster.restart_apiserver()

    def answered(_verb: str, _kind: str, status: int, _seconds: float) -> None:
        seen.append(status)
        if len(seen) == 3:
            # The list must not continue meanwhile: its loop is blocked, another one runs this.
            with ThreadPoolExecutor(1) as other:
                other.submit(asyncio.run, forget()).result()

    async with user_client(cluster) as hand:
        await at_once([partial(hand.demand, "POST", NODES_PATH, bulky_node(n)) for n in range(count)])
        connection = await build_api_client(str(cluster.kubeconfig(tmp_path / "config")), version="test")
        try:
            kube = Kube(connection.api_client, timeout_seconds=120.0, on_request=answered)
            listed = await kube.list(NODES, digest=whole, limit=2)
        finally:
            await connection.close()
        assert sorted(node.name for node in listed.items) == [crowd_name(n) for n in range(1, count)]
        assert seen == [200] * 3 + [410] + [200] * 15
        await hand.demand("DELETE", NODES_PATH)


async def test_expired_watches_relist(cluster: ControlPlane, tmp_path: Path) -> None:
    """When etcd is compacted and the server restarts, each watch gets a 410 and lists once, and no change is missed."""
    async with user_client(cluster) as hand:
        for number in range(20):
            await hand.demand("POST", NODES_PATH, bulky_node(number))
        async with proven(cluster, tmp_path) as made:
            lists = {kind: made.answers["list", kind, 200] for kind in ("nodeclaims", "nodes")}
            # Other kinds advance etcd's revision, so that the last one of our watches is compacted.
            for number in range(20):
                await hand.demand("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": f"c{number}"}})
            cluster.apiserver.kill()
            await cluster.restart_apiserver()
            await cluster.compact_etcd()
            await hand.demand("DELETE", f"{NODES_PATH}/{crowd_name(3)}")
            await made.until(lambda: made.app.nodes.get(crowd_name(3)) is None, "the deletion is known")
            await made.until(lambda: expired(made.log) >= {"nodeclaims", "nodes"}, "both got a 410")
            await made.equals_a_fresh_list()
            assert made.lives == 1
            for kind, before in lists.items():
                assert made.answers["list", kind, 200] > before
            await hand.demand("DELETE", "/api/v1/namespaces/default/configmaps")
        await hand.demand("DELETE", NODES_PATH)


def expired(log: list[Json]) -> set[str]:
    """The kinds whose watch expired."""
    failed = [line for line in log if line["event"] == "failed to list or watch"]
    return {line["resource"] for line in failed if line["reason"] in ("Expired", "Gone")}


async def test_no_claim_is_lost_when_the_server_restarts_under_load(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """While claims are created and deleted, the server is stopped once and killed once; each claim reaches the wanted
    state.
    """
    names = [f"load{n}" for n in range(24)]
    async with user_client(cluster) as hand:
        async with proven(cluster, tmp_path) as made, asyncio.TaskGroup() as tasks:

            async def own(name: str) -> None:
                await hand.demand("POST", CLAIMS_PATH, node_claim(name))
                if int(name.removeprefix("load")) % 2:
                    await asyncio.sleep(5.0)
                    await hand.demand("DELETE", f"{CLAIMS_PATH}/{name}")

            tasks.create_task(at_once([partial(own, name) for name in names], most=4))
            await made.until(lambda: len(made.app.claims.items()) >= 8, "eight claims")
            await cluster.restart_apiserver()
            await made.until(lambda: made.ready() >= 4, "four are Ready")
            await cluster.restart_apiserver(kill=True)
            kept = set(names[::2])
            await made.until(lambda: made.ready() == len(kept) == len(made.app.claims.items()), "who is kept is Ready")
            assert {claim.name for claim in made.app.claims.items()} == kept
            assert {pool.name for pool in made.cloud.pools.values()} == kept
            assert {node.metadata.labels["agentpool"] for node in made.app.nodes.items()} == kept
        with capsys.disabled():
            print(f"\n{len(names)} claims through two restarts: {made.lives} lives of ours, {made.passes.count} passes")


async def test_token_rotation_and_revocation(cluster: ControlPlane, tmp_path: Path) -> None:
    """A token that is replaced before it is revoked costs one 401 for each request; without a new one all requests
    wait.
    """
    async with user_client(cluster) as hand:
        secrets = [f"holder{n}" for n in range(3)]
        first, second, third = [await bound_token(hand, name) for name in secrets]
        async with proven(cluster, tmp_path) as made:
            made.mount(first)
            await made.connection.renew_credentials()
            await hand.demand("POST", CLAIMS_PATH, node_claim("token1"))
            await made.until(lambda: made.ready() == 1, "it is Ready")
            made.log.clear()
            made.mount(second)
            await revoke(cluster, hand, secrets[0], first)
            await hand.demand("POST", CLAIMS_PATH, node_claim("token2"))
            await made.until(lambda: made.ready() == 2, "the second is Ready, with the token that was mounted in time")
            assert "reconcile failed" not in {line["event"] for line in made.log}
            await revoke(cluster, hand, secrets[1], second)
            await hand.demand("POST", CLAIMS_PATH, node_claim("token3"))
            await made.until(lambda: unauthorized(made.log), "the third gets a 401")
            made.mount(third)
            await made.until(lambda: made.ready() == 3, "the third is Ready, once there is a token")
        assert first not in str(made.log)
        assert second not in str(made.log)


def unauthorized(log: list[Json]) -> bool:
    """Whether the log has a 401."""
    return any("401 Unauthorized" in str(line.get("error")) for line in log)


async def bound_token(hand: Hand, holder: str) -> str:
    """A token of our service account that is bound to this Secret."""
    space = f"/api/v1/namespaces/{NAMESPACE}"
    made = await hand.demand("POST", f"{space}/secrets", {"metadata": {"name": holder}})
    bound = {"kind": "Secret", "apiVersion": "v1", "name": holder, "uid": made["metadata"]["uid"]}
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 600, "boundObjectRef": bound},
    }
    answer = await hand.demand("POST", f"{space}/serviceaccounts/{SERVICE_ACCOUNT}/token", request)
    return str(answer["status"]["token"])


async def revoke(cluster: ControlPlane, hand: Hand, holder: str, token: str) -> None:
    """Delete the Secret, and wait until the API server's token cache (10 s) has expired."""
    await hand.demand("DELETE", f"/api/v1/namespaces/{NAMESPACE}/secrets/{holder}")
    while (await cluster.request("GET", CLAIMS_PATH, token=token))[0] != 401:  # noqa: ASYNC110 - nobody tells us
        await asyncio.sleep(0.5)
