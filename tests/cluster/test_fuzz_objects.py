"""The objects and patches that the fuzzer draws, on the real API server: only what it accepts may be drawn."""

import asyncio
from random import Random

import pytest

from tests import nvsentinel
from tests.fuzz.objects import MUTATORS
from tests.fuzz.pods import NAMESPACE, Json, pod, relabelled, volumes

from .controlplane import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio]

SEEDS = range(4)
PLURALS = {"StorageClass": "storageclasses", "AgentPoolNodeClass": "agentpoolnodeclasses"}
NAMESPACED = {
    "Pod",
    "PersistentVolumeClaim",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "DaemonSet",
    "PodDisruptionBudget",
}
# Objects of one draw are alike: so many of the first and of the last ones are sent.
SENT = 3


def path(made: Json, name: str = "") -> str:
    version = made["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    folder = f"{root}/namespaces/{NAMESPACE}" if made["kind"] in NAMESPACED else root
    plural = PLURALS.get(made["kind"], made["kind"].lower() + "s")
    return f"{folder}/{plural}/{name}" if name else f"{folder}/{plural}?dryRun=All"


async def refused_patches(cluster: ControlPlane) -> list[str]:
    """A pod and an object outside all namespaces are stored, and relabelled as in a run, one patch after the other."""
    rng, refused = Random(1), list[str]()
    storage = next(one for one in volumes(rng, "patched") if one["kind"] == "StorageClass")
    for made in (pod(rng, "patched"), storage):
        await cluster.demand("POST", path(made).partition("?")[0], made)
        for _ in SEEDS:
            patch = relabelled(rng, made)
            where = path(made, made["metadata"]["name"])
            status, answer = await cluster.request("PATCH", where, patch, "application/merge-patch+json")
            if status != 200 or not patch["metadata"]["labels"].items() <= answer["metadata"]["labels"].items():
                refused.append(f"patch of {made['kind']}: {status} {str(answer)[:160]}")
    return refused


async def test_the_api_server_accepts_what_is_drawn(cluster: ControlPlane) -> None:
    """No drawn object is stored: each is sent as a dry run, which validates it and admits it."""
    await cluster.demand("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    # The controller manager creates it, too.
    await cluster.request("POST", account, {"metadata": {"name": "default"}})
    for definition in nvsentinel.crds():
        root = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await cluster.request("POST", root, definition)
    requests = f"/apis/{nvsentinel.GROUP}/{nvsentinel.VERSION}/rebootnodes"
    while (await cluster.request("GET", requests))[0] != 200:  # noqa: ASYNC110 - another process establishes it
        await asyncio.sleep(0.1)
    refused = list[str]()
    accepted = set[str]()
    for mutator in MUTATORS:
        for seed in SEEDS:
            drawn = mutator(Random(seed), f"x{seed}")
            for made in drawn[:SENT] + drawn[SENT:][-SENT:]:
                status, answer = await cluster.request("POST", path(made), made)
                if status in (200, 201):
                    accepted.add(mutator.__name__)
                else:
                    message = answer["message"] if isinstance(answer, dict) else answer
                    refused.append(f"{mutator.__name__} {seed}: {status} {message[-160:]}")
    refused += await refused_patches(cluster)
    assert refused == []
    assert accepted == {mutator.__name__ for mutator in MUTATORS}
