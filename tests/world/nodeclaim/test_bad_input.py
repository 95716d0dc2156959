"""Invalid claims and refused status writes: each is reported once, backs off, and can be deleted."""

import asyncio
import json
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from provisioner.simulator.azure import faults
from provisioner.simulator.azure.settings import AzureSettings
from tests.world.claims import (
    CLAIMS,
    arm_calls,
    condition,
    created,
    events,
    message,
    node_is_ready,
    passes_over,
    puts,
    ready,
    removed,
    versions,
    wait_for_condition,
    word,
)
from tests.world.harness import SIZE, node_claim, simulated

HOUR_SECONDS = 3600.0
CRDS = "customresourcedefinitions.apiextensions.k8s.io"
AMD = "Standard_ND96isr_MI300X_v5"
TYPE = "node.kubernetes.io/instance-type"
TYPE_REMEDY = "add node.kubernetes.io/instance-type, for example Standard_NC24ads_A100_v4"


def of_type(*values, operator="In", more=()):
    return {"requirements": [{"key": TYPE, "operator": operator, "values": list(values)}, *more]}


def also(key, *values, operator="In"):
    return of_type(SIZE, more=[{"key": key, "operator": operator, "values": list(values)}])


def requests(resource, quantity):
    return {"resources": {"requests": {resource: quantity}}}


def tainted(key):
    return {"taints": [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}, {"key": key, "effect": "NoSchedule"}]}


class Bad(NamedTuple):
    """An invalid claim, its reason, and what the message contains: the field, the value, the remedy."""

    reason: str
    fragments: tuple[str, ...]
    spec: dict[str, Any] = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


MISSING = ("spec.requirements: no instance type is specified", TYPE_REMEDY)
ZONE, CAPACITY, OS = "topology.kubernetes.io/zone", "karpenter.sh/capacity-type", "kubernetes.io/os"
SKU_NAME, IMAGE = "karpenter.azure.com/sku-name", "kaito.sh/node-image-family"
STORAGE = "spec.resources.requests.storage: "
BOUNDS = "the OS disk must be 30Gi to 2048Gi; change the request"
OF_THEIRS = "AKS reserves this key; remove the label or use another prefix"
BAD = {
    "another architecture": Bad(
        "RequirementsInvalid",
        (f"spec.requirements[kubernetes.io/arch]: {SIZE}: amd64", "allow amd64"),
        also("kubernetes.io/arch", "arm64"),
    ),
    "another region": Bad(
        "RequirementsInvalid",
        ("spec.requirements[topology.kubernetes.io/region]: the cluster is in westeurope", "allow westeurope"),
        also("topology.kubernetes.io/region", "eastus"),
    ),
    "a zone of another region": Bad(
        "ZoneInvalid", (f"spec.requirements[{ZONE}]: no zone of westeurope", "use westeurope-1"), also(ZONE, "eastus-1")
    ),
    "no instance type": Bad(
        "InstanceTypeMissing", MISSING, {"requirements": [{"key": OS, "operator": "In", "values": ["linux"]}]}
    ),
    "only what it is not": Bad("InstanceTypeMissing", MISSING, of_type(SIZE, operator="NotIn")),
    "another cloud's type": Bad(
        "InstanceTypeInvalid",
        (f"spec.requirements[{TYPE}]: 'm5.large' is not an Azure VM size", "use for example Standard_NC24ads_A100_v4"),
        of_type("m5.large"),
    ),
    "two types that differ": Bad(
        "InstanceTypeInvalid",
        (f"spec.requirements[{SKU_NAME}]", SIZE, "specify the same size in both requirements"),
        also(SKU_NAME, "Standard_NC4as_T4_v3"),
    ),
    "a contradiction": Bad(
        "RequirementsInvalid",
        ("spec.requirements", TYPE, f"In [{SIZE}], NotIn [{SIZE}]", "recreate the claim with valid requirements"),
        also(TYPE, SIZE, operator="NotIn"),
    ),
    "Windows": Bad(
        "OperatingSystemInvalid",
        (f"spec.requirements[{OS}]", "linux is excluded, and nodes run Linux", "allow linux"),
        also(OS, "windows"),
    ),
    "no such zone": Bad(
        "ZoneInvalid", (f"spec.requirements[{ZONE}]: 'moon' is not a zone; use <location>-1",), also(ZONE, "moon")
    ),
    "no such capacity": Bad(
        "CapacityTypeInvalid",
        (f"spec.requirements[{CAPACITY}]: neither on-demand nor spot is allowed; allow one of them",),
        also(CAPACITY, "reserved"),
    ),
    "a huge disk": Bad("DiskSizeInvalid", (STORAGE + "10Ti", BOUNDS), requests("storage", "10Ti")),
    "a tiny disk": Bad("DiskSizeInvalid", (STORAGE + "2Gi", BOUNDS), requests("storage", "2Gi")),
    "a disk of nothing": Bad("DiskSizeInvalid", (STORAGE + "0", "request 30Gi or more"), requests("storage", "0")),
    "a disk of less": Bad("DiskSizeInvalid", (STORAGE + "-5Gi", "request 30Gi or more"), requests("storage", "-5Gi")),
    "half a GPU": Bad(
        "ResourceQuantityInvalid",
        ("spec.resources.requests[nvidia.com/gpu]: 1500m: extended resources must be integers",),
        requests("nvidia.com/gpu", "1500m"),
    ),
    "a label of AKS": Bad(
        "LabelRefused",
        ("metadata.labels[kubernetes.azure.com/mine]: 'x'", OF_THEIRS),
        labels={"kubernetes.azure.com/mine": "x"},
    ),
    "a label of Kubernetes": Bad(
        "LabelRefused",
        ("metadata.labels[scheduler.kubernetes.io/mine]: 'x'", OF_THEIRS),
        labels={"scheduler.kubernetes.io/mine": "x"},
    ),
    "a reserved label": Bad(
        "LabelRefused", ("metadata.labels[agentpool]: 'mine'", OF_THEIRS), labels={"agentpool": "mine"}
    ),
    "a taint of AKS": Bad(
        "TaintInvalid",
        ("spec.taints[1]: 'kubernetes.azure.com/mine:NoSchedule'", "AKS reserves this key", "use another prefix"),
        tainted("kubernetes.azure.com/mine"),
    ),
    "no such image": Bad(
        "ImageFamilyInvalid",
        (f"metadata.annotations[{IMAGE}]: {AMD} supports Ubuntu only; remove the annotation",),
        of_type(AMD),
        annotations={IMAGE: "azurelinux"},
    ),
}


@pytest.mark.matrix(quick=8)
@pytest.mark.parametrize("kind", BAD)
@simulated()
async def test_a_claim_that_cannot_be_served_is_reported_once(sim, kind) -> None:
    """One Event states field, value and remedy; the claim causes no further writes and can be deleted."""
    bad = BAD[kind]
    await sim.start_controller(elect=False)
    claim = node_claim("gpu1", labels=bad.labels, **bad.spec)
    claim["metadata"]["annotations"] = bad.annotations
    await sim.apply(claim)
    reported = await wait_for_condition(sim, "gpu1", "Launched", "False", bad.reason, within_seconds=5)
    for fragment in bad.fragments:
        assert fragment in reported["message"]
    assert word(sim.claim("gpu1"), "Ready") == ("False", "UnhealthyDependents")
    with passes_over("gpu1") as passes:
        await asyncio.sleep(HOUR_SECONDS)
    assert len(passes) <= 3
    assert [str(call.target.subresource) for call in sim.audit_log.writes(who="ctl0")] == ["", "status"]
    [event] = events(sim, "gpu1")
    assert (event["type"], event["reason"], event["count"]) == ("Warning", bad.reason, 1)
    assert event["message"] == condition(sim.claim("gpu1"), "Launched")["message"]
    assert arm_calls(sim, "gpu1") == []
    await removed(sim, "gpu1", within_seconds=5)
    await sim.settled()
    assert not {"PUT", "DELETE"} & set(arm_calls(sim, "gpu1"))


@simulated()
async def test_bad_claims_can_be_deleted_at_once(sim) -> None:
    """An invalid claim that is deleted at once is removed within the minute for which a 404 is not accepted."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1", size="m5.large"))
    await wait_for_condition(sim, "gpu1", "Launched", "False", "InstanceTypeInvalid", within_seconds=5)
    await removed(sim, "gpu1", within_seconds=70)
    await sim.settled()


@simulated()
async def test_many_invalid_claims_do_not_delay_a_valid_one(sim) -> None:
    """Among fifty invalid claims the PUT of a valid one is sent within a second."""
    for number in range(50):
        await sim.apply(node_claim(f"bad{number}", size="m5.large"))
    await sim.start_controller()
    await asyncio.sleep(10)
    applied = sim.now
    await sim.apply(node_claim("good"))
    await ready(sim, "good")
    assert puts(sim, "good")[0] - applied < 1


@simulated()
async def test_a_label_that_is_corrected_is_tried_again(sim) -> None:
    """A claim that is refused for a label continues once the label is removed."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1", labels={"agentpool": "mine"}))
    await wait_for_condition(sim, "gpu1", "Launched", "False", "LabelRefused", within_seconds=5)
    await asyncio.sleep(600)
    assert puts(sim, "gpu1") == []
    await sim.apply({**node_claim("gpu1"), "metadata": {"name": "gpu1", "labels": {"agentpool": None}}})
    await sim.until(lambda: puts(sim, "gpu1"), 2, "the PUT is sent")
    await ready(sim, "gpu1")


@simulated()
async def test_a_size_that_azure_refuses_is_requested_after_at_most_five_minutes(sim) -> None:
    """A well-formed size that AKS refuses is reported on the claim, and tried again as any unavailable offering is."""
    await sim.start_controller(elect=False)
    await sim.apply(node_claim("gpu1", size="Standard_NC999ads_Z1_v9"))
    reported = await wait_for_condition(sim, "gpu1", "Launched", "False", "VMSizeNotSupported", within_seconds=5)
    assert "The VM size of Standard_NC999ads_Z1_v9 is not allowed in your subscription" in reported["message"]
    assert "az vm list-skus" in reported["message"]
    await asyncio.sleep(HOUR_SECONDS)
    assert len(puts(sim, "gpu1")) == 15
    await removed(sim, "gpu1", within_seconds=70)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (requests("storage", "lots"), "spec.resources.requests.storage"),
        (tainted("-no-key-"), "spec.taints[1].key"),
        ({"nodeClassRef": {"group": "", "kind": "KaitoNodeClass", "name": "default"}}, "spec.nodeClassRef"),
        (of_type(operator="In"), "spec.requirements"),
    ],
)
@simulated()
async def test_the_crd_rejects_some_mistakes(sim, spec, field) -> None:
    """The CRD's validation refuses some mistakes on apply, by the field's name."""
    await sim.start_controller()
    with pytest.raises(AssertionError, match="422") as refused:
        await sim.apply(node_claim("gpu1", **spec))
    assert field in str(refused.value)
    await asyncio.sleep(5)
    assert sim.audit_log.writes(who="ctl0") == []


# An API server that refuses status writes


def refusing(sim, status, reason):
    """Make the API server refuse every status write of claims; the refused writes, as a list that grows."""
    refused = []

    async def refuse(call, _request):
        if call.verb != "PATCH" or call.target.kind != "nodeclaims" or call.target.subresource != "status":
            return None
        refused.append(call)
        status_body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": status}
        return web.Response(
            status=status, content_type="application/json", text=json.dumps({**status_body, "message": "no"})
        )

    sim.world.before.append(refuse)
    return refused


@pytest.mark.parametrize(("status", "reason"), [(403, "Forbidden"), (422, "Invalid"), (413, "RequestEntityTooLarge")])
@simulated()
async def test_refused_status_writes_block_nothing(sim, status, reason) -> None:
    """Without any status write a claim is launched, registered, initialized and removed in order."""
    refused = refusing(sim, status, reason)
    await sim.start_controller(elect=False)
    uid = (await sim.apply(node_claim("gpu1")))["metadata"]["uid"]
    await node_is_ready(sim, "gpu1")
    await sim.until(
        lambda: "karpenter.sh/initialized" in sim.nodes_of("gpu1")[0]["metadata"]["labels"], 300, "initialized"
    )
    known = len(refused)
    await asyncio.sleep(HOUR_SECONDS)
    assert len(refused) - known <= 7
    assert "status" not in sim.claim("gpu1")
    await removed(sim, "gpu1")
    assert sim.audit_log.deletion_order(uid) == ["pool", "node", "claim"]
    await sim.settled(quiet_seconds=30.0)


@simulated()
async def test_a_failed_attempt_is_removed_without_status(sim) -> None:
    """If the cause of a failed pool cannot be written, the pool is still removed and created again."""
    sim.cloud.faults.append(faults.capacity(times=1))
    refusing(sim, 403, "Forbidden")
    await sim.start_controller(elect=False)
    await sim.apply(node_claim("gpu1"))
    await node_is_ready(sim, "gpu1", within_seconds=1800)
    assert created(sim, "gpu1") == 2
    await removed(sim, "gpu1")


@simulated()
async def test_status_is_written_again_after_a_refusal(sim) -> None:
    """Ten minutes after a refusal the status is written again."""
    refusing(sim, 403, "Forbidden")
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await node_is_ready(sim, "gpu1")
    await asyncio.sleep(300)
    sim.world.before.pop()
    await ready(sim, "gpu1", within_seconds=650)


@pytest.mark.parametrize("pool", [False, True])
@simulated()
async def test_a_legacy_claim_without_a_class_group_can_be_deleted(sim, pool) -> None:
    """A claim without nodeClassRef.group, whose status cannot be written, is removed with its pool and Node."""
    meta = {"name": "gpu1", "labels": {"kaito.sh/workspace": "w"}, "finalizers": ["karpenter.sh/termination"]}
    spec = {
        "nodeClassRef": {"group": "", "kind": "", "name": ""},
        "requirements": [{"key": TYPE, "operator": "In", "values": [SIZE]}],
    }
    made_by_predecessor = {
        "kaito.sh/workspace": "w",
        "kaito.sh/machine-type": "gpu",
        "kaito.sh/creation-timestamp": "2026-03-01T12-00-00Z",
        "karpenter.sh/nodepool": "kaito",
    }
    refused = refusing(sim, 422, "Invalid")
    crd = sim.store.get(CRDS, CLAIMS)
    loose = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    for version in crd["spec"]["versions"]:
        version["schema"] = loose
    sim.store.patch(CRDS, CLAIMS, {"spec": crd["spec"]})
    sim.store.create(CLAIMS, {"metadata": meta, "spec": spec})
    if pool:
        sim.cloud.seed_pool("gpu1", vmSize=SIZE, nodeLabels=made_by_predecessor)
    await sim.start_controller()
    await asyncio.sleep(900)
    assert refused
    await removed(sim, "gpu1")
    assert "gpu1" not in sim.cloud.pools
    assert not sim.nodes_of("gpu1")
    await sim.settled(quiet_seconds=30.0)


# Events


@simulated(azure=AzureSettings(create_seconds=(60.0, 90.0)))
async def test_events_are_where_kubectl_looks_and_do_not_pile_up(sim) -> None:
    """Repeated reports on a claim are one Event in namespace default, with a count and the claim's UID."""
    sim.cloud.faults.append(faults.quota())
    await sim.start_controller(elect=False)
    uid = (await sim.apply(node_claim("gpu1")))["metadata"]["uid"]
    await asyncio.sleep(HOUR_SECONDS)
    reported = events(sim, "gpu1")
    assert {one["metadata"]["namespace"] for one in sim.store.list("events")} == {"default"}
    assert {(one["involvedObject"]["kind"], one["involvedObject"]["uid"]) for one in reported} == {("NodeClaim", uid)}
    assert len({(one["type"], one["reason"], one["message"]) for one in reported}) == len(reported)
    [quota] = [one for one in events(sim, "gpu1", "QuotaExceeded") if "overdue" not in one["message"]]
    assert (quota["type"], quota["count"]) == ("Warning", created(sim, "gpu1"))


@simulated()
async def test_a_restart_repeats_no_report(sim) -> None:
    """A restarted process repeats neither a status write nor an Event."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await sim.apply(node_claim("bad1", size="m5.large"))
    await ready(sim, "gpu1")
    await asyncio.sleep(600)
    before = sorted((one["metadata"]["name"], one["count"]) for one in sim.store.list("events"))
    seen = versions(sim, "gpu1") + versions(sim, "bad1")
    await sim.stop_controller()
    await sim.start_controller("ctl1")
    await asyncio.sleep(600)
    assert sorted((one["metadata"]["name"], one["count"]) for one in sim.store.list("events")) == before
    assert seen == []
    assert sim.audit_log.writes(who="ctl1") == []
    assert message(sim, "bad1", "Launched").startswith("spec.requirements")
