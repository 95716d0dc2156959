"""`gpu-provisioner check` with one fault at a time: only that fault is reported, with its remedy."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from controllers.model.policy import Policy
from provisioner.api import labels
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure import errors, faults
from provisioner.simulator.azure.faults import ALWAYS, Fault
from provisioner.simulator.world import KUBE_HOST
from tests import gkm
from tests.world.azure_role import QUOTA_ACTIONS
from tests.world.claims import ready, wait_for_condition
from tests.world.commands import WHO, check, written
from tests.world.demand import node_class, node_pool
from tests.world.harness import SIZE, Sim, node_claim, simulated

OTHER = "Standard_NC4as_T4_v3"
FAMILY, OTHER_FAMILY = "StandardNCADSA100v4Family", "StandardNCAST4v3Family"
CRD_KEY, CRD = "customresourcedefinitions.apiextensions.k8s.io", "nodeclaims.karpenter.sh"
LEASES = "leases.coordination.k8s.io"
READ_ONLY = [{"actions": ["*/read"], "notActions": []}]
NO_DELETE = [{"actions": ["Microsoft.ContainerService/*"], "notActions": ["*/agentpools/DELETE"]}]


def reported(findings: list[dict[str, str]], state: str) -> list[tuple[str, str]]:
    """Section and check of every finding with that state."""
    return [(one["section"], one["check"]) for one in findings if one["state"] == state]


async def run_check(sim: Sim, *words: str, **options: Any) -> tuple[int, list[dict[str, str]]]:
    """The exit code and the findings; each failure has a remedy, and nothing was written."""
    before = written(sim)
    ended = await check(sim, "-o", "json", *words, **options)
    stated = json.loads(ended.out)
    assert stated["ok"] == (ended.code == 0)
    findings: list[dict[str, str]] = stated["results"]
    assert all(one["remedy"] for one in findings if one["state"] == "failed")
    assert (ended.err, written(sim)) == ("", before)
    return ended.code, findings


def change_crd(sim: Sim, change: Callable[[dict[str, Any]], None]) -> None:
    """Replace the definition, as another installation does."""
    crd = sim.store.get(CRD_KEY, CRD)
    assert crd is not None
    served = crd["spec"]["versions"][0]
    change(served)
    sim.store.patch(CRD_KEY, CRD, {"spec": {"versions": [served]}})


def answer(sim: Sim, fits: Callable[[Call], bool], status: int, reason: str) -> None:
    """The API server rejects these requests of the command."""

    async def refuse(call: Call, _: web.Request) -> web.StreamResponse | None:
        if call.who != WHO or call.system != "kube" or not fits(call):
            return None
        body = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": reason,
            "message": "no",
            "code": status,
        }
        return web.json_response(body, status=status)

    sim.world.before.append(refuse)


def hang(sim: Sim, system: str) -> None:
    """One API accepts requests and never responds."""

    async def silence(call: Call, _: web.Request) -> web.StreamResponse | None:
        if call.who == WHO and call.system == system:
            await asyncio.sleep(3600)
        return None

    sim.world.before.append(silence)


def taken(name: str, plural: str) -> Callable[[dict[str, Any]], None]:
    def change(served: dict[str, Any]) -> None:
        del served["schema"]["openAPIV3Schema"]["properties"][plural]["properties"][name]

    return change


def other_enum(served: dict[str, Any]) -> None:
    items = served["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["requirements"]["items"]
    items["properties"]["operator"]["enum"] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]


@simulated()
async def test_a_healthy_installation(sim: Sim) -> None:
    """With a leader and a Ready claim: exit code 0, no ✗, no -; sizes and quotas are those of the claim."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1", within_seconds=1200)
    code, findings = await run_check(sim)
    assert code == 0
    assert {one["state"] for one in findings} == {"ok"}
    by_check = {one["check"]: one["message"] for one in findings}
    assert by_check["lease"].startswith("ctl0 is leader since 2026-03-01T12:00:0")
    assert by_check["quota StandardNCADSA100v4Family"] == ("24 of 1000 vCPUs used in westeurope, 0 more vCPUs required")
    assert by_check["agent pools"] == "3 of the cluster's 100 are used"
    for crd in ("CRD", "CRD NodePool", "CRD AgentPoolNodeClass", "CRD NodeOverlay"):
        assert "its schema is that of the chart" in by_check[crd]
    assert by_check["NodePools"] == "none of this controller"
    assert [call.verb for call in sim.audit_log.calls(who=WHO) if call.target.kind == "customresourcedefinitions"] == [
        "LIST"
    ] * 4


@simulated()
async def test_a_nodepool_that_is_not_ready_fails(sim: Sim) -> None:
    """With the cause of its condition; a NodePool of another controller is not checked."""
    await sim.start_controller()
    await sim.apply(node_class())
    await sim.apply(node_pool())
    lost = node_pool("lost")
    lost["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "absent"
    await sim.apply(lost)
    theirs = node_pool("theirs")
    theirs["spec"]["template"]["spec"]["nodeClassRef"] |= {"group": "karpenter.azure.com", "kind": "AKSNodeClass"}
    await sim.apply(theirs)
    await asyncio.sleep(30)
    code, findings = await run_check(sim)
    (found,) = [one for one in findings if one["check"] == "NodePools"]
    assert (code, found["state"]) == (3, "failed")
    assert found["message"].startswith("lost: ")
    assert "absent" in found["message"]
    assert found["remedy"] == "kubectl describe nodepool lost shows its conditions."


@simulated()
async def test_a_resource_of_a_readiness_rule_that_is_not_served_fails(sim: Sim) -> None:
    """The rule would hold its taint on each new Node; with the CRD the check passes."""
    cache = {"group": gkm.GROUP, "version": gkm.VERSION, "resource": "gkmcachenodes", "namespace": "default"}
    rule = {
        "taint": {"key": "example.com/wait", "effect": "NoSchedule"},
        "until": {"object": {**cache, "jsonPath": "{.status}"}},
    }
    await sim.start_controller()
    await sim.apply({**node_class("cached"), "spec": {"readiness": [rule]}})
    code, findings = await run_check(sim)
    assert (code, reported(findings, "failed")) == (3, [("kubernetes", "readiness rules")])
    (failed,) = (one["message"] for one in findings if one["state"] == "failed")
    assert failed == "the API server does not serve gkmcachenodes.gkm.io v1alpha1; is its CRD installed?"
    for crd in gkm.crds():
        await sim.apply(crd)
    code, findings = await run_check(sim)
    assert code == 0
    assert ("kubernetes", "readiness rules") in reported(findings, "ok")


@simulated()
async def test_missing_crds_of_nodepools_are_no_failure(sim: Sim) -> None:
    """The program works without them; the message states what is not used."""
    await sim.start_controller()
    for name in ("nodepools.karpenter.sh", "agentpoolnodeclasses.gpu-provisioner.sh", "nodeoverlays.karpenter.sh"):
        sim.store.delete(CRD_KEY, name)
    await asyncio.sleep(5)
    code, findings = await run_check(sim)
    shown = {one["check"]: one for one in findings}
    assert code == 0
    for kind, unused in (("NodePool",) * 2, ("AgentPoolNodeClass", "NodePool"), ("NodeOverlay",) * 2):
        assert shown[f"CRD {kind}"]["state"] == "unknown"
        assert f"{unused}s are not used" in shown[f"CRD {kind}"]["message"]


@simulated()
async def test_with_the_controllers_own_role_unreadable_checks_are_unknown(sim: Sim) -> None:
    """As with `helm test`: everything that the controller needs is checked, and nothing is a failure."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1", within_seconds=1200)
    code, findings = await run_check(sim, besides=frozenset[str]())
    assert code == 0
    assert reported(findings, "failed") == []
    unreadable = ("api version", "permissions", "sizes", "quota")
    assert reported(findings, "unknown") == [("azure", name) for name in unreadable]
    hints = [one["remedy"] for one in findings if one["check"] in ("sizes", "quota")]
    assert ["azure-quota-role.json" in hint for hint in hints] == [True, True]
    _, findings = await run_check(sim, besides=QUOTA_ACTIONS)
    assert reported(findings, "unknown") == [("azure", name) for name in unreadable[:-2]]


@simulated()
async def test_a_cloud_that_does_not_offer_the_version_of_the_api(sim: Sim) -> None:
    """The versions that it offers are listed, and the refusal on the claim names the setting."""
    sim.cloud.configure(api_versions=("2025-10-01", "2025-09-01"))
    code, findings = await run_check(sim)
    assert code == 3
    assert reported(findings, "failed") == [("azure", "api version"), ("azure", "cluster")]
    by_check = {one["check"]: one for one in findings}
    assert by_check["api version"]["message"].endswith(
        "is not offered in this cloud; the newest are 2025-10-01, 2025-09-01"
    )
    assert "ARM_API_VERSION" in by_check["api version"]["remedy"]
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    reported_on = await wait_for_condition(sim, "gpu1", "Launched", "Unknown", "NoRegisteredProviderFound")
    assert "Set ARM_API_VERSION (azure.apiVersion in the chart)" in reported_on["message"]


def denied(*rights: tuple[str, str]) -> Callable[[Sim], None]:
    return lambda sim: sim.api.caller.denied.update(rights)


def arm_fault(verb: str, **fault: Any) -> Callable[[Sim], None]:
    return lambda sim: sim.cloud.faults.append(Fault(verb=verb, times=ALWAYS, **fault))


def setting(path: str, value: Any) -> Callable[[Sim], None]:
    def change(sim: Sim) -> None:
        where, _, name = path.rpartition(".")
        target: Any = sim.cloud
        for part in where.split(".") if where else ():
            target = getattr(target, part)
        setattr(target, name, value)

    return change


def limited(**quotas: Any) -> Callable[[Sim], None]:
    return lambda sim: sim.cloud.configure(**quotas)


FORBIDDEN = errors.gateway(403, "AuthorizationFailed", "The client does not have authorization to perform action.")
WRONG: dict[str, tuple[Callable[[Sim], object], list[tuple[str, str]], str]] = {
    "no CRD": (
        lambda sim: sim.store.delete(CRD_KEY, CRD),
        [("kubernetes", "CRD")],
        "nodeclaims.karpenter.sh is not installed",
    ),
    "a CRD that lacks a field": (
        lambda sim: change_crd(sim, taken("imageID", "status")),
        [("kubernetes", "CRD")],
        "lacks fields, which are dropped: status.imageID",
    ),
    "a CRD without status": (
        lambda sim: change_crd(sim, lambda served: served.pop("subresources")),
        [("kubernetes", "CRD")],
        "has no status subresource",
    ),
    "rights that are missing": (
        denied(("create", "pods/eviction"), ("patch", "leases.coordination.k8s.io")),
        [("kubernetes", "permissions")] * 2,
        "missing: create pods/eviction",
    ),
    "a stopped cluster": (setting("cluster_power", "Stopped"), [("azure", "cluster")], "Succeeded, Stopped"),
    "a failed cluster": (setting("cluster_state", "Failed"), [("azure", "cluster")], "Failed, Running"),
    "a cluster that is not there": (
        arm_fault("CLUSTER", answer=errors.cluster_not_found("rg", "aks")),
        [("azure", "cluster")],
        "aks in rg: ",
    ),
    "pools that may not be listed": (
        arm_fault("LIST", answer=FORBIDDEN),
        [("azure", "agent pools")],
        "AuthorizationFailed",
    ),
    "a reader": (
        setting("compute.roles", READ_ONLY),
        [("azure", "permissions")] * 2,
        "missing: Microsoft.ContainerService/managedClusters/agentPools/write",
    ),
    "a role without delete": (
        setting("compute.roles", NO_DELETE),
        [("azure", "permissions")],
        "missing: Microsoft.ContainerService/managedClusters/agentPools/delete",
    ),
    "a size that the subscription does not get": (
        setting("faults", [faults.restricted(OTHER)]),
        [("azure", f"size {OTHER}")],
        "not available to this subscription in westeurope: NotAvailableForSubscription",
    ),
    "a family without quota": (
        limited(family_cores={OTHER_FAMILY: 0}),
        [("azure", "quota StandardNCAST4v3Family")],
        "0 of 0 vCPUs used in westeurope, 4 more vCPUs required",
    ),
    "a region that is full": (
        limited(regional_cores=3),
        [("azure", "quota all vCPUs of the region")],
        "4 more vCPUs required",
    ),
}


@pytest.mark.parametrize(("change", "expected", "words"), WRONG.values(), ids=WRONG)
@simulated()
async def test_only_the_failed_check_is_reported(
    sim: Sim, change: Callable[[Sim], None], expected: list[tuple[str, str]], words: str
) -> None:
    """Exit code 3; exactly this check is ✗, and all sections are complete."""
    await sim.start_controller()
    await asyncio.sleep(60)
    await sim.stop_controller()
    sim.store.patch(LEASES, "gpu-provisioner", {"spec": {"holderIdentity": "ctl0"}}, "kube-system")
    change(sim)
    await asyncio.sleep(30)
    code, findings = await run_check(sim, "--size", OTHER)
    assert code == 3
    assert reported(findings, "failed") == expected
    assert any(words in one["message"] for one in findings if one["state"] == "failed")
    assert {one["section"] for one in findings if one["state"] == "ok"} == {"kubernetes", "azure"}


NO_POOLS = arm_fault("LIST", answer=errors.forbidden("Microsoft.ContainerService/x/agentPools/read", "/x"))
FIRST_CALL = arm_fault("CLUSTER", answer=errors.forbidden("Microsoft.ContainerService/managedClusters/read", "/x"))


@pytest.mark.parametrize("change", [FIRST_CALL, NO_POOLS, setting("compute.roles", READ_ONLY)])
@simulated()
async def test_a_missing_role_is_reported_with_the_commands_to_assign_it(
    sim: Sim, change: Callable[[Sim], None]
) -> None:
    """The remedy is the shipped role file, with this cluster as the scope."""
    change(sim)
    code, findings = await run_check(sim)
    assert code == 3
    remedies = {one["remedy"] for one in findings if one["state"] == "failed" and one["section"] == "azure"}
    (remedy,) = remedies
    assert "charts/gpu-provisioner/azure-role.json" in remedy
    assert "az role definition create --role-definition @azure-role.json" in remedy
    give, _, scope = remedy.partition(" --scope ")
    assert give.endswith("az role assignment create --role 'GPU provisioner' --assignee <its client ID>")
    assert scope.partition(";")[0].casefold() == sim.cloud.settings.cluster_id.casefold()


UNKNOWN: dict[str, tuple[Callable[[Sim], None], tuple[str, str]]] = {
    "roles": (arm_fault("PERMISSIONS", answer=FORBIDDEN), ("azure", "permissions")),
    "sizes": (arm_fault("SKUS", answer=FORBIDDEN), ("azure", "sizes")),
    "usage": (arm_fault("USAGES", answer=FORBIDDEN), ("azure", "quota")),
    "usage that is no list": (arm_fault("USAGES", answer=errors.Answer(200, {"value": 7})), ("azure", "quota")),
    "sizes in HTML": (arm_fault("SKUS", answer=errors.Answer(502, "<html>bad</html>")), ("azure", "sizes")),
    "definitions": (
        lambda sim: answer(sim, lambda call: call.target.kind == "customresourcedefinitions", 403, "Forbidden"),
        ("kubernetes", "CRD"),
    ),
    "rights": (
        lambda sim: answer(sim, lambda call: call.target.kind == "selfsubjectaccessreviews", 403, "Forbidden"),
        ("kubernetes", "permissions"),
    ),
    "the lease": (
        lambda sim: answer(sim, lambda call: call.target.kind == "leases", 403, "Forbidden"),
        ("kubernetes", "lease"),
    ),
    "the leases of others": (
        lambda sim: answer(sim, lambda call: (call.verb, call.target.kind) == ("LIST", "leases"), 403, "Forbidden"),
        ("kubernetes", "other leases"),
    ),
    "claims": (
        lambda sim: answer(sim, lambda call: call.target.kind == "nodeclaims", 403, "Forbidden"),
        ("kubernetes", "claims"),
    ),
}


@pytest.mark.parametrize(("change", "expected"), UNKNOWN.values(), ids=UNKNOWN)
@simulated()
async def test_what_cannot_be_read_is_unknown(
    sim: Sim, change: Callable[[Sim], None], expected: tuple[str, str]
) -> None:
    """It is no failure: exit code 0, with the reason."""
    await sim.start_controller()
    await asyncio.sleep(60)
    change(sim)
    code, findings = await run_check(sim, "--size", OTHER)
    assert (code, reported(findings, "unknown")) == (0, [expected])


@pytest.mark.parametrize(
    ("system", "silent", "other"), [("kube", "API server", "azure"), ("arm", "cluster", "kubernetes")]
)
@simulated()
async def test_an_api_that_does_not_respond_does_not_block_the_other(
    sim: Sim, system: str, silent: str, other: str
) -> None:
    """Each request has a timeout; an API without a response is a ✗, and the other section is complete."""
    await sim.start_controller()
    await asyncio.sleep(60)
    hang(sim, system)
    began = sim.now
    code, findings = await run_check(sim, "--size", OTHER)
    assert code == 3
    assert [name for _, name in reported(findings, "failed")] == [silent]
    assert "other checks" in [name for _, name in reported(findings, "unknown")]
    assert {one["state"] for one in findings if one["section"] == other} == {"ok"}
    assert sim.now - began < 60


@simulated()
async def test_the_state_of_the_lease(sim: Sim) -> None:
    """No Lease yet is no failure; a released or expired one is; without election no Lease is read."""

    async def lease(**options: Any) -> dict[str, str]:
        _, findings = await run_check(sim, **options)
        return next(one for one in findings if one["check"] == "lease")

    first = await lease()
    assert (first["state"], "no controller has been leader yet" in first["message"]) == ("unknown", True)
    await sim.start_controller()
    await asyncio.sleep(60)
    assert (await lease())["state"] == "ok"
    await sim.stop_controller()
    gone = await lease()
    assert (gone["state"], "has no holder" in gone["message"]) == ("failed", True)
    await sim.start_controller("ctl1")
    await asyncio.sleep(60)
    sim.controllers["ctl1"].crash(reset=True)
    await asyncio.sleep(1200)
    silent = await lease()
    assert silent["state"] == "failed"
    assert silent["message"].startswith("Lease kube-system/gpu-provisioner was last renewed at 20")
    assert (await lease(elect=False))["state"] == "unknown"


@simulated()
async def test_a_second_controller_with_a_lease_of_its_own(sim: Sim) -> None:
    """An earlier version in another namespace is named while it leads; the Lease that it leaves is no failure."""

    async def others() -> list[tuple[str, str]]:
        _, findings = await run_check(sim)
        return [(one["state"], one["message"]) for one in findings if one["check"] == "other leases"]

    await sim.start_controller("old", lease_namespace="default", identity="gpu-provisioner-5d8f7c9b6-x2x7k_1")
    await asyncio.sleep(60)
    held = "Lease default/gpu-provisioner is held by gpu-provisioner-5d8f7c9b6-x2x7k_1"
    ((state, message),) = await others()
    assert (state, message.startswith(held)) == ("unknown", True)
    await sim.start_controller("new")
    await asyncio.sleep(60)
    ((state, message),) = await others()
    assert (state, message.startswith(held)) == ("failed", True)
    sim.controllers["old"].crash(reset=True)
    await asyncio.sleep(1200)
    assert await others() == []


@simulated()
async def test_the_lease_of_earlier_versions_that_the_leader_holds_too(sim: Sim) -> None:
    """It has the same holder, so that there is one controller."""
    await sim.start_controller("old", lease_namespace="default")
    await asyncio.sleep(60)
    await sim.stop_controller("old")
    await sim.start_controller("new", former_lease_namespace="default")
    await asyncio.sleep(60)
    code, findings = await run_check(sim)
    assert (code, reported(findings, "failed")) == (0, [])
    holders = {one["spec"]["holderIdentity"] for one in sim.store.list(LEASES)}
    assert len(holders) == 1


@simulated()
async def test_a_compatible_foreign_crd_is_reported_and_no_failure(sim: Sim) -> None:
    """For example Karpenter's own, with fewer operators: it accepts everything that the controller writes."""
    change_crd(sim, other_enum)
    _, findings = await run_check(sim)
    (crd,) = [one for one in findings if one["check"] == "CRD"]
    assert crd["state"] == "ok"
    assert crd["message"].endswith("its schema differs from that of the chart in spec.requirements.operator.enum")


@simulated()
async def test_unavailable_offerings_are_reported(sim: Sim) -> None:
    """A claim without quota: the offering, since when, the message of its condition, and the lack of quota."""
    sim.cloud.configure(family_cores={FAMILY: 23}, quota_check="preflight")
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await asyncio.sleep(600)
    code, findings = await run_check(sim)
    assert code == 3
    assert reported(findings, "failed") == [("kubernetes", "claims"), ("azure", "quota StandardNCADSA100v4Family")]
    claim, quota = [one for one in findings if one["state"] == "failed"]
    assert claim["message"].startswith(f"gpu1: none of {SIZE} is available since 2026-03-01T12:0")
    assert "QuotaExceeded" in claim["message"]
    assert quota["message"] == "0 of 23 vCPUs used in westeurope, 24 more vCPUs required"
    assert quota["remedy"] == "Raise it by 1 or use another VM size: az vm list-usage -l westeurope -o table"


@simulated()
async def test_zones_and_spot(sim: Sim) -> None:
    """A closed zone is a failure only for a claim that names it; spot uses its own quota and no family's."""
    sim.cloud.faults.append(faults.restricted(SIZE, zone="1"))
    sim.cloud.configure(low_priority_cores=4, family_cores={FAMILY: 0})
    code, findings = await run_check(sim, "--size", SIZE)
    (size,) = [one for one in findings if one["check"] == f"size {SIZE}"]
    assert (size["state"], size["message"].endswith("24 vCPUs; not in zone 1")) == ("ok", True)
    claim = node_claim("gpu1")
    claim["spec"]["requirements"] += [
        {"key": labels.ZONE, "operator": "In", "values": ["westeurope-1", "westeurope-2"]},
        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["spot"]},
    ]
    await sim.apply(claim)
    code, findings = await run_check(sim)
    assert code == 3
    assert reported(findings, "failed") == [
        ("azure", f"size {SIZE}"),
        ("azure", "quota all spot vCPUs of the region"),
    ]
    (size,) = [one for one in findings if one["check"] == f"size {SIZE}"]
    assert size["message"].startswith("not available in zone 1 of westeurope")


@simulated()
async def test_limits_of_the_cluster_and_a_wrong_location(sim: Sim) -> None:
    """Pools up to the limit; LOCATION that differs from the cluster's; an unknown size; no size at all."""
    _, findings = await run_check(sim, policy=Policy(max_agent_pools=2), location="northeurope")
    assert reported(findings, "failed") == [("azure", "cluster"), ("azure", "agent pools")]
    assert ("azure", "sizes") in reported(findings, "unknown")
    _, findings = await run_check(sim, "--size", "Standard_NC999_v9", "--size", "; drop", location="westeurope")
    assert reported(findings, "failed") == [("azure", "size Standard_NC999_v9"), ("azure", "size ; drop")]


@simulated()
async def test_text_output(sim: Sim) -> None:
    """Sections, marks, a remedy below each failure, a verdict; no colour, no token."""
    sim.cloud.cluster_power = "Stopped"
    ended = await check(sim)
    lines = ended.out.splitlines()
    assert (lines[0], ended.code) == ("kubernetes", 3)
    place = next(number for number, line in enumerate(lines) if "✗" in line)
    cluster = " ".join(lines[place].split())
    assert cluster == "✗ cluster aks in rg: Succeeded, Stopped, in westeurope"
    assert lines[place + 1].strip().startswith("Start it (az aks start)")
    assert lines[-1] == "1 check failed; 3 unknown or unusual"
    assert "\x1b" not in ended.out
    assert KUBE_HOST not in ended.out
