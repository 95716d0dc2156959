"""A claim's whole lifecycle with kubectl alone, on the real API server with the real controller.

Azure and its machines are emulated and fast; the controller is a process of its own with our chart's roles. kubectl
prints at each point what the README and our conditions document.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cluster.backend import real
from tests.cluster.controlplane import ControlPlane
from tests.cluster.realworld import RealWorld
from tests.wire.kubectl import Kubectl

from .stage import Stage, claim, error_message

pytestmark = [pytest.mark.asyncio, pytest.mark.cluster]

FIRST_GPU = Path(__file__).parents[3] / "examples" / "first-gpu.yaml"
NAME, NODE = "firstgpu", "aks-firstgpu-47249735-vmss000000"
IT = f"nodeclaim.karpenter.sh/{NAME}"
SIZE = "Standard_NC4as_T4_v3"
PROVIDER_ID = re.compile(
    r"azure:///subscriptions/\S+/virtualMachineScaleSets/aks-firstgpu-47249735-vmss/virtualMachines/0"
)
DRAINED = "{.status.conditions[?(@.type=='Drained')].%s}"


@dataclass
class Life:
    """A user's kubectl, the emulated Azure, and an HTTP client for pods."""

    kubectl: Kubectl
    world: RealWorld
    stage: Stage

    async def reached(self, condition: str, name: str = NAME) -> None:
        """`kubectl wait` returns for that condition."""
        output = await self.kubectl("wait", f"--for=condition={condition}", f"nodeclaim/{name}", "--timeout=60s")
        assert output == f"nodeclaim.karpenter.sh/{name} condition met\n"

    async def events(self, name: str = NAME) -> dict[str, str]:
        """The output of `kubectl events --for`: messages by reason."""
        _, *rows = await self.kubectl.table("events", "--for", f"nodeclaim/{name}")
        assert {row[4] for row in rows} == {f"NodeClaim/{name}"}
        return {row[3]: row[5] for row in rows}

    async def column(self, kind: str, title: str) -> list[str]:
        """One column of `kubectl get`."""
        header, *rows = await self.kubectl.table("get", kind)
        return [row[header.index(title)] for row in rows]

    def pools(self) -> list[str]:
        """Azure's agent pools that are not there at the start."""
        return sorted(self.world.cloud.pools.keys() - {"system", "theirs"})


@pytest_asyncio.fixture
async def life(cluster: ControlPlane, tmp_path: Path) -> AsyncIterator[Life]:
    """A cluster in which the controller runs."""
    async with real(cluster, tmp_path) as backend, RealWorld.open(cluster, tmp_path) as world:
        await world.start_controller()
        stage = Stage(backend)
        yield Life(stage.kubectl, world, stage)
        await world.stop_controller()


async def rows_of(kubectl: Kubectl, seen: list[list[str]]) -> None:
    """All output of `kubectl get nodeclaims -w`."""
    async with kubectl.running("get", "nodeclaims", "-w") as running:
        while line := await running.line():
            seen.append(line)


async def test_from_apply_to_deletion(life: Life) -> None:
    """A claim is applied, waited for, read, drained by hand and deleted; each step prints what is documented."""
    kubectl = life.kubectl
    assert await kubectl("apply", "-f", str(FIRST_GPU)) == f"{IT} created\n"
    seen: list[list[str]] = []
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(rows_of(kubectl, seen))
        await comes(life)
        await is_reported(life)
        await is_used(life)
        await goes(life)
        watching.cancel()
    assert seen[0] == ["NAME", "TYPE", "CAPACITY", "ZONE", "NODE", "READY", "AGE"]
    ready = [row[-2] for row in seen[1:] if row[-2] in {"Unknown", "False", "True"}]
    assert list(dict.fromkeys(ready)) == ["Unknown", "True"]
    assert seen[-1][:6] == [NAME, SIZE, "on-demand", "0", NODE, "True"]


async def comes(life: Life) -> None:
    """All conditions become True, in their order; meanwhile the size and what is waited for are shown."""
    creating = """--for=jsonpath={.status.conditions[?(@.type=="Launched")].reason}=Creating"""
    await life.kubectl("wait", creating, IT, "--timeout=60s")
    shown = dict(zip(*await life.kubectl.table("get", "nodeclaims", "-o", "wide"), strict=True))
    assert (shown["TYPE"], shown["REASON"], shown["READY"]) == (SIZE, "Creating", "Unknown")
    for condition in ("Launched", "Registered", "Initialized", "Ready"):
        await life.reached(condition)
    assert life.pools() == [NAME]


async def is_reported(life: Life) -> None:
    """get, describe and events show what has happened."""
    header, row = await life.kubectl.table("get", "nodeclaims", "-o", "wide")
    shown = dict(zip(header, row, strict=True))
    age, image, provider_id = (shown.pop(title) for title in ("AGE", "IMAGEID", "ID"))
    assert shown == {
        "NAME": NAME,
        "TYPE": SIZE,
        "CAPACITY": "on-demand",
        "ZONE": "0",
        "NODE": NODE,
        "READY": "True",
        "NODEPOOL": "",
        "NODECLASS": "default",
        "REASON": "",
        "DRIFTED": "",
    }
    assert re.fullmatch(r"\d+s", age)
    assert image.startswith("AKSUbuntu-2204gen2containerd-")
    assert PROVIDER_ID.fullmatch(provider_id)
    described = await life.kubectl("describe", "nodeclaim", NAME)
    assert re.findall(r"Status: +(\w+)\n +Type: +(\w+)\n", described) == [
        ("True", condition) for condition in ("Launched", "Registered", "Initialized", "Ready")
    ]
    assert f"  Node Name:               {NODE}\n" in described
    events = await life.events()
    assert set(events) == {"Registered", "Initialized"}
    assert events["Registered"] == f"Node {NODE} belongs to this claim"
    assert events["Initialized"] == "the Node is Ready with 1 of 1 nvidia.com/gpu allocatable"
    for reason, message in events.items():
        assert re.search(rf"  Normal  {reason} +\S+ +gpu-provisioner  {re.escape(message)}\n", described)


async def is_used(life: Life) -> None:
    """A user's labels are kept, the spec is immutable, and a drain by hand evicts pods and keeps the machine."""
    kubectl = life.kubectl
    assert await kubectl("label", "nodeclaim", NAME, "team=a") == f"{IT} labeled\n"
    assert await kubectl("annotate", "nodeclaim", NAME, "note=mine") == f"{IT} annotated\n"
    patch = ("patch", "nodeclaim", NAME, "--type=merge", "-p", '{"spec":{"expireAfter":"1h"}}')
    output = await kubectl.refused(*patch)
    assert error_message(output) == f'The NodeClaim "{NAME}" is invalid: spec: Invalid value: spec is immutable\n'
    assert await kubectl("apply", "-f", str(FIRST_GPU)) == f"{IT} unchanged\n"
    await life.stage.pod("web", node=NODE)
    drained = (await kubectl("drain", NODE, "--force", "--timeout=30s")).splitlines()
    assert drained == [f"node/{NODE} cordoned", "evicting pod default/web", "pod/web evicted", f"node/{NODE} drained"]
    assert "Ready,SchedulingDisabled" in await life.column("nodes", "STATUS")
    assert await kubectl("uncordon", NODE) == f"node/{NODE} uncordoned\n"
    assert (await life.column("nodeclaims", "READY"), life.pools()) == (["True"], [NAME])
    labels = await kubectl("label", "nodeclaim", NAME, "--list")
    assert "team=a" in labels.splitlines()


async def goes(life: Life) -> None:
    """`delete` returns when the machine, its Node and the claim are gone; a PodDisruptionBudget that blocks it is
    named.
    """
    kubectl = life.kubectl
    await life.stage.pod("held", node=NODE, labels={"app": "held"})
    budget = ("create", "pdb", "keep", "--selector=app=held", "--min-available=1")
    assert await kubectl(*budget) == "poddisruptionbudget.policy/keep created\n"
    counted = ("wait", "--for=jsonpath={.status.currentHealthy}=1", "pdb/keep", "--timeout=30s")
    assert await kubectl(*counted) == "poddisruptionbudget.policy/keep condition met\n"
    async with kubectl.running("delete", "nodeclaim", NAME, "-v=6") as deleting:
        await deleting.watches()
        draining = f"jsonpath={DRAINED % 'reason'}=Draining"
        await kubectl("wait", f"--for={draining}", f"nodeclaim/{NAME}", "--timeout=60s")
        held = await kubectl("get", "nodeclaim", NAME, "-o", f"jsonpath={DRAINED % 'message'}")
        assert held == (
            f"waiting for pods on Node {NODE}: default/held: "
            "The disruption budget keep needs 1 healthy pods and has 1 currently"
        )
        assert (life.pools(), deleting.ended) == ([NAME], False)
        await kubectl("delete", "pdb", "keep")
        await life.reached("Drained")
        await life.reached("InstanceTerminating")
        code, out, _ = await deleting.end()
    assert (code, out) == (0, f'nodeclaim.karpenter.sh "{NAME}" deleted\n')
    assert await kubectl.run("get", "nodeclaims") == (0, "", "No resources found\n")
    assert NODE not in await life.column("nodes", "NAME")
    assert life.pools() == []
    events = await life.events()
    assert events["Draining"] == held
    assert events["InstanceTerminating"] == "agent pool firstgpu is being deleted"


async def test_an_invalid_claim_reports_the_remedy(life: Life) -> None:
    """A claim without a size reports the remedy in describe and events, creates no pool, and can be deleted."""
    kubectl, name = life.kubectl, "nosize"
    nothing = claim(name, spec={"requirements": [{"key": "team", "operator": "Exists"}]})
    assert await kubectl("apply", "-f", kubectl.file(nothing)) == f"nodeclaim.karpenter.sh/{name} created\n"
    output = await kubectl("wait", "--for=condition=Launched=False", f"nodeclaim/{name}", "--timeout=60s")
    assert output == f"nodeclaim.karpenter.sh/{name} condition met\n"
    await life.reached("Ready=False", name)
    remedy = (
        "spec.requirements: no instance type is specified; "
        "add node.kubernetes.io/instance-type, for example Standard_NC24ads_A100_v4"
    )
    described = await kubectl("describe", "nodeclaim", name)
    assert re.search(
        rf"Message: +{re.escape(remedy)}\n.*\n +Reason: +InstanceTypeMissing\n +Status: +False\n +Type: +Launched\n",
        described,
    )
    assert (await life.events(name))["InstanceTypeMissing"] == remedy
    assert await life.column("nodeclaims", "READY") == ["False"]
    deleted = await kubectl("delete", "nodeclaim", name, "--wait=false")
    assert deleted == f'nodeclaim.karpenter.sh "{name}" deleted\n'
    assert life.pools() == []
