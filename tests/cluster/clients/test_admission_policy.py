"""The chart's admission policies on a real API server: kubectl prints what the controller would report minutes later.

Server-side dry runs: nothing is stored. Messages are compared to those of `plan`, and of NodePools
to those of their condition.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from cloudprovider.azure.cloud import AksCloud
from cloudprovider.azure.offerings import validate
from controllers.nodepool.validation import errors as pool_errors
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.cli.commands.planning import plan
from tests.cluster.charts import VALUES, rendered
from tests.cluster.controlplane import ControlPlane
from tests.wire.kubectl import Kubectl, Result
from tests.world.demand import node_pool

from .stage import SPEC, claim

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio]

Json = dict[str, Any]

EXAMPLES = Path(__file__).parents[3] / "examples"
API = "/apis/admissionregistration.k8s.io/v1"
COLLECTIONS = {
    "ValidatingAdmissionPolicy": f"{API}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{API}/validatingadmissionpolicybindings",
}
WARNING = re.compile(
    r"^Warning: Validation failed for ValidatingAdmissionPolicy '([\w-]+)' with binding '\1': (.*)$", re.MULTILINE
)
CLAIMS, NOTES = "gpu-provisioner-claims", "gpu-provisioner-claims-notes"
SIZE, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"
POOLS = "gpu-provisioner-nodepools"
OWN_CLASS = {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"}
SKU = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
TAINT = {"key": "kubernetes.azure.com/mine", "value": "x", "effect": "NoSchedule"}


def one_of(key: str, *values: str, operator: str = "In") -> Json:
    return {"key": key, "operator": operator, "values": list(values)}


def requiring(*more: Json) -> Json:
    return {"requirements": [*SPEC["requirements"], *more]}


def asking(**requests: Any) -> Json:
    return {"resources": {"requests": {name.replace("__", "/"): amount for name, amount in requests.items()}}}


def template_of(pool: Json, **changed: Json) -> Json:
    """The NodePool with these members of its template's metadata or spec."""
    for part, members in changed.items():
        pool["spec"]["template"][part] |= members
    return pool


# What the controller refuses: the claim, and the program's message for it.
REFUSED: dict[str, tuple[Json, str]] = {
    "no size": (
        claim(spec={"requirements": [one_of("karpenter.sh/nodepool", "kaito")]}),
        "no instance type is specified",
    ),
    "no such size": (claim(spec={"requirements": [one_of(SIZE, "n1-standard-4")]}), "is not an Azure VM size"),
    "arch": (
        claim(spec=requiring(one_of("kubernetes.io/arch", "arm64"))),
        "allow amd64",
    ),
    "not its arch": (
        claim(spec=requiring(one_of("beta.kubernetes.io/arch", "amd64", operator="NotIn"))),
        "allow amd64",
    ),
    "zone": (claim(spec=requiring(one_of(ZONE, "westeurope"))), "use <location>-1, -2 or -3"),
    "terms": (claim(spec=requiring(one_of("karpenter.sh/capacity-type", "reserved"))), "neither on-demand nor spot"),
    "windows": (claim(spec=requiring(one_of("kubernetes.io/os", "windows"))), "linux is excluded"),
    "not linux": (claim(spec=requiring(one_of("kubernetes.io/os", "linux", operator="NotIn"))), "linux is excluded"),
    "small disk": (claim(spec=asking(storage="10Gi")), "10Gi: the OS disk must be 30Gi to 2048Gi"),
    "large disk": (claim(spec=asking(storage="5Ti")), "5Ti: the OS disk must be 30Gi to 2048Gi"),
    "half a GPU": (
        claim(spec=asking(nvidia__com="1", **{"nvidia.com__gpu": "500m"})),
        "extended resources must be integers",
    ),
    "label": (claim(labels={"kubernetes.azure.com/mine": "x"}), "AKS reserves this key"),
    "bare label": (claim(labels={"agentpool": "x"}), "AKS reserves this key"),
    "taint": (claim(spec={"taints": [TAINT]}), "AKS reserves this key"),
    "a node class of ours": (
        claim(labels={}, spec={**asking(storage="10Gi"), "nodeClassRef": OWN_CLASS}),
        "10Gi: the OS disk must be 30Gi to 2048Gi",
    ),
}
# NodePools that the controller refuses, and its message for them.
POOLS_REFUSED: dict[str, tuple[Json, str]] = {
    "size": (node_pool(requirements=[one_of(SIZE, "n1-standard-4", "p3.2xlarge")]), "unknown sizes"),
    "label": (
        template_of(node_pool(), metadata={"labels": {"kubernetes.azure.com/mine": "x"}}),
        "AKS reserves this key",
    ),
    "taint": (template_of(node_pool(), spec={"taints": [TAINT]}), "AKS reserves this key"),
    "taints": (
        template_of(node_pool(), spec={"startupTaints": [SKU]}),
        "another taint or startup taint has the same key and effect",
    ),
}
POOLS_FINE: dict[str, Json] = {
    "plain": node_pool(),
    "one of its sizes": node_pool(requirements=[one_of(SIZE, "n1-standard-4", "Standard_NC4as_T4_v3")]),
    "spot's taint": template_of(
        node_pool(), spec={"taints": [{**TAINT, "key": "kubernetes.azure.com/scalesetpriority"}]}
    ),
    "other effect": template_of(node_pool(), spec={"startupTaints": [{**SKU, "effect": "NoExecute"}]}),
    "another controller's": template_of(
        node_pool(),
        spec={
            "taints": [TAINT],
            "nodeClassRef": {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"},
        },
    ),
}
# The same with `azure.location`, which `plan` does not know.
ELSEWHERE: dict[str, tuple[Json, str]] = {
    "region": (
        claim(spec=requiring(one_of("topology.kubernetes.io/region", "eastus"))),
        "the cluster is in westeurope; allow westeurope",
    ),
    "not its region": (
        claim(spec=requiring(one_of("topology.kubernetes.io/region", "westeurope", operator="NotIn"))),
        "the cluster is in westeurope; allow westeurope",
    ),
    "zone elsewhere": (claim(spec=requiring(one_of(ZONE, "eastus-1"))), "no zone of westeurope"),
}
# Valid claims that may not be intended.
NOTED: dict[str, tuple[Json, str]] = {
    "startup taint": (
        claim(spec={"startupTaints": [{"key": "gkm.io/cache-not-ready", "effect": "NoSchedule"}]}),
        "spec.startupTaints: gkm.io/cache-not-ready: DaemonSets without a toleration, including the device plugin",
    ),
    "name": (claim("a-name-of-nodepools"), "metadata.name: a-name-of-nodepools is not a valid agent pool name"),
}
# Claims that get no warning, some of them at a boundary.
FINE: dict[str, Json] = {
    "plain": claim(),
    "several regions": claim(
        spec=requiring(one_of("topology.kubernetes.io/region", "eastus", "westeurope"), one_of(ZONE, "eastus-1", "1"))
    ),
    "its arch": claim(spec=requiring(one_of("kubernetes.io/arch", "arm64", "amd64"))),
    "arm": claim(
        spec={"requirements": [one_of(SIZE, "Standard_ND128isr_GB300_v6"), one_of("beta.kubernetes.io/arch", "arm64")]}
    ),
    "edges": claim(spec=requiring(one_of(ZONE, "westeurope-1", "2"), one_of("kubernetes.io/os", "linux", "windows"))),
    "least disk": claim(spec=asking(storage="30Gi")),
    "rounded up": claim(spec=asking(storage="31500000000")),
    "most disk": claim(spec=asking(storage="2Ti")),
    "no wish": claim(spec=asking(storage="1Mi")),
    "whole GPUs": claim(spec=asking(**{"nvidia.com__gpu": "2000m"})),
    "cores": claim(spec=asking(cpu="1500m")),
    "spot": claim(spec=requiring(one_of("karpenter.sh/capacity-type", "spot", "reserved"))),
    "spot's taint": claim(spec={"taints": [{**TAINT, "key": "kubernetes.azure.com/scalesetpriority"}]}),
    "plugin's taint": claim(spec={"startupTaints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}),
    "somebody else's": claim(
        "not-ours",
        spec={
            "requirements": [],
            "nodeClassRef": {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "d"},
        },
    ),
}


async def dry_run(kubectl: Kubectl, one: Json) -> Result:
    """kubectl's result for a dry run of this claim."""
    return await kubectl.run("create", "--dry-run=server", "-f", kubectl.file(one))


def warnings(output: Result) -> list[tuple[str, str]]:
    """Policy and message of each warning."""
    return [(found[1], found[2]) for found in WARNING.finditer(output.err)]


@contextlib.asynccontextmanager
async def in_force(cp: ControlPlane, home: Path, action: str) -> AsyncIterator[Kubectl]:
    """kubectl, while the chart's policies are in force; the server applies and removes them with a delay."""
    azure = {**VALUES["azure"], "location": "westeurope"}
    values = {**VALUES, "azure": azure, "admissionPolicy": {"enabled": True, "action": action}}
    objects = [
        obj
        for obj in rendered("gpu-provisioner", namespace="default", values=values)
        if obj["kind"] in COLLECTIONS and obj["metadata"]["name"] in (CLAIMS, NOTES, POOLS)
    ]
    assert len(objects) == 6
    kubectl = Kubectl(home, cp.kubeconfig(home / "config"))
    bad = claim("a-bad-one", spec={"requirements": []})
    bad_pool = template_of(node_pool("a-bad-one"), spec={"taints": [TAINT]})
    try:
        for obj in objects:
            await cp.demand("POST", COLLECTIONS[obj["kind"]], obj)
        async with asyncio.timeout(300):
            while len((await dry_run(kubectl, bad)).err.splitlines()) < 2:  # noqa: ASYNC110 - another process applies it
                await asyncio.sleep(0.2)
            while not (await dry_run(kubectl, bad_pool)).err:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.2)
        yield kubectl
    finally:
        for obj in objects:
            await cp.request("DELETE", f"{COLLECTIONS[obj['kind']]}/{obj['metadata']['name']}")
        async with asyncio.timeout(300):
            while (await dry_run(kubectl, bad)).err or (await dry_run(kubectl, bad_pool)).err:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.2)


async def test_kubectl_warns_of_claims_that_the_controller_refuses(cluster: ControlPlane, tmp_path: Path) -> None:
    """A claim that the controller refuses gets one warning with the program's message, and is created."""
    async with in_force(cluster, tmp_path, "Warn") as kubectl:
        for name, (one, message) in REFUSED.items():
            output = await dry_run(kubectl, one)
            assert (name, output.code) == (name, 0)
            assert [(policy, message in text) for policy, text in warnings(output)] == [(CLAIMS, True)], (name, output)
            assert message.rpartition(": ")[2] in "\n".join(str(error) for error in plan(name, one).errors), name
        for name, (one, message) in ELSEWHERE.items():
            output = await dry_run(kubectl, one)
            assert [(policy, message in text) for policy, text in warnings(output)] == [(CLAIMS, True)], (name, output)
            assert message in "\n".join(map(str, validate(msgspec.convert(one, NodeClaim), "westeurope"))), name


async def test_notes_and_claims_without_warnings(cluster: ControlPlane, tmp_path: Path) -> None:
    """A claim that may not be intended gets a note; all other claims and our examples get no warning."""
    async with in_force(cluster, tmp_path, "Warn") as kubectl:
        for name, (one, message) in NOTED.items():
            (warning,) = warnings(await dry_run(kubectl, one))
            assert warning[0] == NOTES, name
            assert warning[1].startswith(message), name
            assert plan(name, one).errors == (), name
        documents = [doc for path in sorted(EXAMPLES.glob("*.yaml")) for doc in yaml.safe_load_all(path.read_text())]
        examples = {doc["metadata"]["name"]: doc for doc in documents if doc["kind"] == "NodeClaim"}
        assert len(examples) > 5
        for name, one in {**FINE, **examples}.items():
            output = await dry_run(kubectl, one)
            noted = [warning for warning in warnings(output) if warning[0] != NOTES or name in FINE]
            assert (name, output.code, noted) == (name, 0, []), output


async def test_kubectl_warns_of_nodepools_that_the_controller_refuses(cluster: ControlPlane, tmp_path: Path) -> None:
    """Only NodePools of this controller, with the message of the condition ValidationSucceeded."""
    async with in_force(cluster, tmp_path, "Warn") as kubectl:
        for name, (one, message) in POOLS_REFUSED.items():
            output = await dry_run(kubectl, one)
            assert [(policy, message in text) for policy, text in warnings(output)] == [(POOLS, True)], (name, output)
            errors = pool_errors(msgspec.convert(one, NodePool), AksCloud())
            assert message in "\n".join(str(error) for error in errors), name
        for name, one in POOLS_FINE.items():
            output = await dry_run(kubectl, one)
            assert (name, output.code, warnings(output)) == (name, 0, []), output


async def test_claims_of_nodepools_get_no_notes(cluster: ControlPlane, tmp_path: Path) -> None:
    """Their names are never those of agent pools, and the controller that creates them does not read warnings."""
    one = claim("gpu-1", labels={"karpenter.sh/nodepool": "gpu"}, spec={"nodeClassRef": OWN_CLASS})
    one["metadata"]["ownerReferences"] = [
        {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "gpu", "uid": "1"}
    ]
    async with in_force(cluster, tmp_path, "Warn") as kubectl:
        output = await dry_run(kubectl, one)
        assert (output.code, warnings(output)) == (0, []), output


async def test_deny_refuses_claims_and_keeps_notes(cluster: ControlPlane, tmp_path: Path) -> None:
    """With deny, a claim that the controller refuses is not created; a claim with a note is."""
    async with in_force(cluster, tmp_path, "Deny") as kubectl:
        refused = await kubectl.refused("create", "-f", kubectl.file(REFUSED["no size"][0]))
        assert "ValidatingAdmissionPolicy 'gpu-provisioner-claims'" in refused
        assert "denied request: spec.requirements: no instance type is specified; add" in refused
        made = await kubectl.run("create", "-f", kubectl.file(NOTED["name"][0]))
        assert (made.code, len(warnings(made))) == (0, 1)
        assert await kubectl("get", "nodeclaims", "-o", "name") == "nodeclaim.karpenter.sh/a-name-of-nodepools\n"
