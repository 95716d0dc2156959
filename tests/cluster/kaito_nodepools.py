"""Scenarios of KAITO in karpenter mode (K19) that run in the simulator and on a real API server, as those of `stories`.

Source: docs/references/kaito.md#karpenter-mode.
"""

import asyncio
from dataclasses import replace
from typing import Any

import aiohttp

from provisioner.api import labels
from tests.world.harness import SIZE, Sim
from tests.world.kaito_actor import at_work
from tests.world.kaito_karpenter import DriftController, PoolApi, PoolWorkspace, start
from tests.world.kaito_nodepools import PoolOwner, is_drifted
from tests.world.kaito_stage import CLASSES, WHO, Poised, pool_claims_of, pool_of, serves

from .stories import LONG, WHOLE, Scene, Stage, Story

Json = dict[str, Any]


async def replicas(scene: Scene) -> None:
    """Two replicas, a restart of KAITO, a third one by a PUT of the NodePool, and the end of all with the NodePool."""
    stage = scene.stage
    owner = PoolOwner(name=scene.name, size=SIZE, count=2, labels={"apps": scene.name})
    async with _session(stage) as session:
        api = PoolApi(session, lambda: 0)
        assert await start(api, CLASSES) < 120.0
        workspace = PoolWorkspace(api, owner, CLASSES)
        async with at_work(workspace):
            await serves(stage, workspace)
        (pool, claims) = pool_of(stage, owner), pool_claims_of(stage, owner)
        assert pool is not None
        assert len(claims) == 2
        wanted = {**owner.marks, **owner.labels, labels.NODEPOOL: owner.pool}
        for claim in claims:
            assert claim["metadata"]["labels"].items() >= wanted.items()
            assert [one["uid"] for one in claim["metadata"]["ownerReferences"]] == [pool["metadata"]["uid"]]
            (agent_pool,) = stage.pools_of(claim["metadata"]["uid"])
            assert agent_pool.properties["nodeLabels"].items() >= wanted.items()
            node = stage.store.get("nodes", claim["status"]["nodeName"])
            assert node["metadata"]["labels"].items() >= wanted.items()

        assert await start(api, CLASSES) < 5.0
        workspace = PoolWorkspace(api, owner, CLASSES)
        poised = Poised(stage, owner)
        async with at_work(workspace):
            await serves(stage, workspace)
            workspace.scale(3)
            await stage.until(lambda: len(pool_claims_of(stage, owner)) == 3, 30, "a third claim")
            await serves(stage, workspace)
        assert poised.least_ready == 2
        pool, claims = pool_of(stage, owner), pool_claims_of(stage, owner)
        assert pool is not None
        assert pool["metadata"]["generation"] == 2
        assert await workspace.delete() < 5.0
    for claim in claims:
        made = Scene(stage, claim["metadata"]["name"], scene.a_while_seconds)
        await made.went(claim["metadata"]["uid"], WHOLE)


async def drift(scene: Scene) -> None:
    """A user edits the node class of two Workspaces of an InferenceSet: KAITO opens their budgets in turns, and each
    machine is replaced while it serves.
    """
    stage = scene.stage
    classes = replace(CLASSES, default=scene.name, specs={scene.name: {"osDiskSizeGB": 512}})
    owners = [
        PoolOwner(name=f"{scene.name}-{which}", size=SIZE, inference_set=scene.name, labels={"apps": scene.name})
        for which in ("a", "b")
    ]
    async with _session(stage) as session:
        api = PoolApi(session, lambda: 0)
        await start(api, classes)
        actors = [PoolWorkspace(api, owner, classes) for owner in owners]
        async with at_work(*actors):
            for actor in actors:
                await serves(stage, actor)
            before = {claim["metadata"]["uid"]: claim["metadata"]["name"] for claim in _claims(stage, owners)}
            path, body = f"{classes.path}/{scene.name}", {"spec": {"osDiskSizeGB": 1024}}
            await stage.request("PATCH", path, body, content_type="application/merge-patch+json")
            await stage.until(lambda: all(is_drifted([one]) for one in _claims(stage, owners)), 60, "all are Drifted")
            await asyncio.sleep(scene.a_while_seconds)
            assert {claim["metadata"]["uid"] for claim in _claims(stage, owners)} == before.keys()
            poised = [Poised(stage, owner) for owner in owners]
            controller = DriftController(api, actors)
            async with at_work(controller):
                await stage.until(lambda: len(controller.reported) >= 2, LONG, "the first one is new")
                await stage.until(lambda: len(controller.reported) >= 4, LONG, "the second one is new")
        assert controller.reported == [
            (reason, owner.pool) for owner in owners for reason in ("DriftStarted", "DriftComplete")
        ]
        assert [(one.least_ready, one.most) for one in poised] == [(1, 2), (1, 2)]
        await stage.until(lambda: len(_claims(stage, owners)) == len(owners), LONG, "the old claims are gone")
        claims = {claim["metadata"]["uid"]: claim["metadata"]["name"] for claim in _claims(stage, owners)}
        assert not claims.keys() & before.keys()
        assert not any(is_drifted([claim]) for claim in _claims(stage, owners))
        for uid in claims:
            assert stage.pools_of(uid)[0].properties["osDiskSizeGB"] == 1024
        for actor in actors:
            await actor.delete()
    for uid, name in (before | claims).items():
        await Scene(stage, name, scene.a_while_seconds).went(uid, WHOLE)


def _claims(stage: Stage, owners: list[PoolOwner]) -> list[Json]:
    return [claim for owner in owners for claim in pool_claims_of(stage, owner)]


def _session(stage: Stage) -> aiohttp.ClientSession:
    """KAITO's connections to the API server."""
    return stage.world.session(WHO) if isinstance(stage, Sim) else stage.session()


KAITO: dict[str, Story] = {"k19": replicas, "k19-drift": drift}
