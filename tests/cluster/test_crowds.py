"""Load on the real API server: thousands of objects in the caches, and concurrent writers of the same objects.

Counts are asserted, times only printed. The guarantees of `inprocess.proven` hold in every test.
"""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controllers.model.policy import Policy
from provisioner.api import labels
from tests.world.harness import SIZE, node_claim

from .bystanders import CLAIMS_PATH, MERGE, NODES_PATH, Hand, at_once, bulky_node, crowd_name, user_client
from .controlplane import ControlPlane
from .inprocess import Pod, proven

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio]

Json = dict[str, Any]

CROWD_CLAIMS, CROWD_NODES = 1000, 2000
OURS_EVERY = 2
TURN_SECONDS = 0.3


def crowd_claim(number: int) -> Json:
    """A claim of ours, or of another provisioner, which is only cached."""
    claim = node_claim(f"crowd{number}")
    if number % OURS_EVERY:
        claim["metadata"]["labels"] = {}
        claim["spec"]["nodeClassRef"] = {"group": "example.com", "kind": "OtherNodeClass", "name": "default"}
    return claim


class Stalls:
    """Samples how late the loop is: a blocked loop also delays the renewal of the Lease."""

    EVERY_SECONDS = 0.005

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def sample(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + self.EVERY_SECONDS
            await asyncio.sleep(self.EVERY_SECONDS)
            self.seconds.append(loop.time() - due)

    def __str__(self) -> str:
        ranked = sorted(self.seconds)
        p99 = ranked[int(len(ranked) * 0.99)]
        return f"loop late by p99 {p99 * 1000:.0f} ms, at most {ranked[-1] * 1000:.0f} ms, of {len(ranked)} looks"


async def test_a_thousand_claims_and_two_thousand_nodes(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A thousand claims are listed once and watched; each of ours is provisioned or reports that it waits."""
    stalls = Stalls()
    async with user_client(cluster) as hand, asyncio.TaskGroup() as tasks:
        await at_once([partial(hand.demand, "POST", NODES_PATH, bulky_node(n)) for n in range(CROWD_NODES)])
        await at_once([partial(hand.demand, "POST", CLAIMS_PATH, crowd_claim(n)) for n in range(CROWD_CLAIMS)])
        sampler = tasks.create_task(stalls.sample())
        begun = asyncio.get_running_loop().time()
        async with proven(cluster, tmp_path, Policy(max_agent_pools=2)) as made:
            listed = asyncio.get_running_loop().time() - begun
            assert (len(made.app.claims.items()), len(made.app.nodes.items())) == (CROWD_CLAIMS, CROWD_NODES)
            ours = CROWD_CLAIMS // OURS_EVERY
            await made.until(lambda: reporting(made) == ours and made.ready() == 2, "all of ours report")
            served = asyncio.get_running_loop().time() - begun
            await at_once(
                [partial(hand.demand, "DELETE", f"{NODES_PATH}/{crowd_name(n)}") for n in range(0, CROWD_NODES, 10)]
            )
            await made.equals_a_fresh_list()
            assert len(made.app.nodes.items()) == CROWD_NODES - CROWD_NODES // 10 + 2
            pages = {kind: made.answers["list", kind, 200] for kind in ("nodeclaims", "nodes")}
        sampler.cancel()
        await hand.demand("DELETE", NODES_PATH)
    with capsys.disabled():
        print(
            f"\n{CROWD_CLAIMS} claims, {CROWD_NODES} Nodes: listed in {listed:.1f} s,"
            f" {ours} of ours reporting after {served:.1f} s, {made.passes.count} passes; {stalls}; pages: {pages}"
        )


def reporting(made: Pod) -> int:
    """The claims that report their machine or the reason for which they wait."""
    return sum(
        any(c.type == "Launched" and (c.status == "True" or c.message) for c in claim.status.conditions)
        for claim in made.app.claims.items()
    )


async def test_concurrent_writers_keep_each_others_labels(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fifty users label claims and their Nodes by patch and replace while eight claims become Ready; no label
    is lost.
    """
    users, rounds, names = 50, 12, [f"users{n}" for n in range(8)]
    async with user_client(cluster) as hand:
        async with proven(cluster, tmp_path) as made:
            for name in names:
                await hand.demand("POST", CLAIMS_PATH, node_claim(name))
            written: dict[str, dict[str, str]] = {}

            async def label(user: int) -> None:
                async with cluster.session() as own:
                    mine = Hand(own)
                    for turn in range(rounds):
                        name = names[(user + turn) % len(names)]
                        nodes = [f"{NODES_PATH}/{node.name}" for node in made.app.nodes.by_index("pool", name)]
                        for path in (f"{CLAIMS_PATH}/{name}", *nodes):
                            found = {f"example.com/user-{user}.{turn}": f"{user}-{turn}"}
                            await (relabel if user % 2 else replace)(mine, path, found)
                            written.setdefault(path, {}).update(found)
                        await asyncio.sleep(TURN_SECONDS)

            await at_once([partial(label, user) for user in range(users)], most=users)
            await made.until(lambda: made.ready() == len(names), "all are Ready")
            for path, found in written.items():
                meta = (await hand.demand("GET", path))["metadata"]
                assert found.items() <= meta["labels"].items()
                assert labels.FINALIZER in meta["finalizers"]
                assert meta["labels"][labels.INSTANCE_TYPE] == SIZE
                if path.startswith(NODES_PATH):
                    assert meta["labels"][labels.REGISTERED] == meta["labels"][labels.INITIALIZED] == "true"
                    assert [owner["kind"] for owner in meta["ownerReferences"]] == ["NodeClaim"]
                else:
                    assert meta["labels"][labels.CAPACITY_TYPE] == "on-demand"
        assert len(written) > len(names), "nobody met a Node"
        total = sum(len(found) for found in written.values())
    with capsys.disabled():
        print(f"\n{users} users wrote {total} labels on {len(written)} objects; {made.passes.count} passes")


async def relabel(hand: Hand, path: str, found: Json) -> None:
    """Write a label as `kubectl label` does."""
    await hand.demand("PATCH", path, {"metadata": {"labels": found}}, MERGE)


async def replace(hand: Hand, path: str, found: Json) -> None:
    """Write a label as `kubectl replace` does, and retry on conflicts."""
    while True:
        obj = await hand.demand("GET", path)
        obj["metadata"]["labels"] |= found
        status, answer = await hand.ask("PUT", path, obj)
        if status != 409:
            assert status == 200, answer
            return
