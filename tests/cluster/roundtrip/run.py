"""Executes a round: the program buys, the real kube-scheduler binds, and without the pods all machines go.

Azure's and the machines' minutes pass as seconds; the program's own times and kube-scheduler's are real. A Node that
keeps a pod off is waited for a minute, and for six if only kube-scheduler can tell why
(docs/adr/0063-purchase-brake.md): `PATIENCE_SECONDS`, the bound where reality differs, is longer. Without a difference,
only kube-scheduler's choice can delay a pod, and the bound is less than those six minutes.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provisioner.api import labels
from provisioner.simulator.azure.compute import catalogue
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.nodes.machine import NodeSettings
from tests.cluster import assets
from tests.cluster.controlplane import ControlPlane
from tests.cluster.processes import PATIENCE_SECONDS
from tests.cluster.realstore import path_of
from tests.cluster.realworld import CLAIMS, SPEED, RealWorld
from tests.cluster.scheduler import kube_scheduler
from tests.world.azure_role import AZURE_ACTIONS
from tests.world.demand import node_class

from . import verdict
from .draw import PRIORITIES, Round, draw

Json = dict[str, Any]

PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
# Longer than a batch of pods is waited for, which is at most 10 s.
QUIET_SECONDS = 10.0
LOOK_SECONDS = 1.0
EXPECTED_SECONDS = 300.0


@dataclass(kw_only=True)
class Outcome:
    """`why`: what is wrong, "" for nothing. `bound`, `unplaceable`, `braked`, `preempted`: numbers of pods.

    `decided`: machines of the first decision about each pod; `machines`: all that were Ready; `slowest`: seconds until
    the last pod was bound. `notes`: each machine beyond the first decision, with its pods and where they are.
    """

    seed: int
    why: str = ""
    pods: int = 0
    bound: int = 0
    unplaceable: int = 0
    braked: int = 0
    preempted: int = 0
    decided: int = 0
    machines: int = 0
    displaced: int = 0
    slowest: float = 0.0
    seconds: float = 0.0
    facts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = ("bound", "unplaceable", "braked", "preempted", "displaced")
        pods = ", ".join(f"{getattr(self, name)} {name}" for name in counts)
        machines = f"{self.decided} machines decided, {self.machines} ran"
        times = f"last bound after {self.slowest:.0f} s, {self.seconds:.0f} s"
        facts = ", ".join(self.facts)
        return f"seed {self.seed}: {self.why or 'ok'} ({self.pods} pods: {pods}; {machines}; {times}; {facts})"


@asynccontextmanager
async def stage(folder: Path) -> AsyncIterator[ControlPlane]:
    """A control plane with kube-scheduler and the PriorityClasses of drawn pods, until the context ends."""
    async with ControlPlane.start(assets.find(), folder, controller_manager=True) as cluster:
        await cluster.install_crds()
        await cluster.install_chart_rbac()
        for name, (policy, value) in PRIORITIES.items():
            body = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
            await cluster.demand("POST", PRIORITY_CLASSES, body)
        async with kube_scheduler(cluster):
            yield cluster


async def execute(cluster: ControlPlane, seed: int) -> Outcome:
    """Run the round of this seed on a `stage`, which is wiped first."""
    await cluster.wipe()
    drawn, began = draw(seed), asyncio.get_running_loop().time()
    outcome = Outcome(seed=seed, pods=len(drawn.pods), facts=sorted(drawn.facts))
    facts = drawn.facts
    azure: dict[str, Any] = {"speed": SPEED, "actions": AZURE_ACTIONS, **facts.get("azure", {})}
    folder = Path(tempfile.mkdtemp(prefix="round-trip-"))
    try:
        settings, nodes = AzureSettings(**azure), NodeSettings(**facts.get("nodes", {}))
        async with RealWorld.open(cluster, folder, azure=settings, nodes=nodes) as world:
            if facts.get("zones") is False:
                world.cloud.compute.zones |= dict.fromkeys(catalogue(), ())
            world.cloud.compute.absent |= set(facts.get("absent", ()))
            await Trip(world, drawn, outcome).all_phases()
    except* Exception as group:  # noqa: BLE001 - whatever ends a round is its result
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        outcome.why = f"{type(error).__name__}: {error}"
    finally:
        shutil.rmtree(folder)
    outcome.seconds = asyncio.get_running_loop().time() - began
    return outcome


class Trip:
    """One round in its world."""

    def __init__(self, world: RealWorld, drawn: Round, outcome: Outcome) -> None:
        self._world = world
        self._drawn = drawn
        self._outcome = outcome
        self._claims: dict[str, Json] = {}
        self._claim_of: dict[str, str] = {}
        self._ran: set[str] = set()
        self._early: set[str] = set()
        self._changed_at = 0.0
        world.store.subscribe(self._note)

    async def all_phases(self) -> None:
        """What is wrong is raised as an AssertionError."""
        await self._begin()
        await self._until_bound()
        self._count()
        await self._remove()

    def _note(self, _event: str, resource: str, obj: Json, _: Json | None) -> None:
        meta, status = obj["metadata"], obj.get("status") or {}
        if resource == CLAIMS or (resource == "pods" and meta["namespace"] == "default"):
            self._changed_at = self._world.now
        if resource != CLAIMS:
            return
        if not self._claims:
            self._create_daemon_sets(late=True)
        if meta["name"] not in self._claims and verdict.too_early(obj, self._claims):
            self._early.add(meta["name"])
        self._claims[meta["name"]] = obj
        if name := status.get("nodeName"):
            self._claim_of[name] = meta["name"]
        if any(one["type"] == "Initialized" and one["status"] == "True" for one in status.get("conditions") or ()):
            self._ran.add(meta["name"])

    async def _begin(self) -> None:
        world, drawn = self._world, self._drawn
        self._create_daemon_sets(late=False)
        await world.apply({**node_class(), "spec": drawn.facts.get("node_class", {})})
        for node_pool in drawn.node_pools:
            await world.apply(node_pool)
        await world.start_controller()
        for pod in drawn.pods:
            world.store.create("pods", pod, "default")

    def _create_daemon_sets(self, *, late: bool) -> None:
        """The late ones come after the first decision."""
        store = self._world.store
        for one in self._drawn.facts.get("daemon_sets", ()):
            if (one["at"] > 0) != late or store.get("daemonsets.apps", one["name"], "kube-system"):
                continue
            own = {"app": one["name"]}
            container = {"name": "main", "image": "agent", "resources": {"requests": one["requests"]}}
            spec = {"containers": [container], "tolerations": [{"operator": "Exists"}]}
            body = {"selector": {"matchLabels": own}, "template": {"metadata": {"labels": own}, "spec": spec}}
            store.create("daemonsets.apps", {"metadata": {"name": one["name"]}, "spec": body}, "kube-system")

    def _pods(self) -> list[Json]:
        return self._world.store.list("pods", "default")

    async def _until_bound(self) -> None:
        """Until no pod that waits is placeable, and nothing has changed for a while."""
        world, outcome = self._world, self._outcome
        began, bound = world.now, 0
        while True:
            world.check()
            store = world.store
            pods = store.list("pods")
            own = [pod for pod in pods if pod["metadata"]["namespace"] == "default"]
            now_bound = sum(1 for pod in own if pod["spec"].get("nodeName"))
            if now_bound > bound:
                bound, outcome.slowest = now_bound, world.now - began
            late = world.now > began + (PATIENCE_SECONDS if self._drawn.facts else EXPECTED_SECONDS)
            if late or world.now > max(began, self._changed_at) + QUIET_SECONDS:
                _, of_pod = verdict.extra_machines(self._claims, self._ran)
                open_ = verdict.placeable(self._drawn, store.list("nodes"), pods)
                uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in own}
                braked = {name for name in open_ if len(of_pod.get(uids[name], ())) >= verdict.MOST_FOR_ONE}
                if self._drawn.facts:
                    open_ = {name: where for name, where in open_.items() if name not in braked}
                if not open_:
                    outcome.bound, outcome.braked = bound, len(braked)
                    outcome.preempted = len(self._drawn.pods) - len(own)
                    outcome.unplaceable = len(own) - bound - len(braked)
                    return
                assert not late, f"placeable but not bound: {open_}\n{world.describe()}"
            await asyncio.sleep(LOOK_SECONDS)

    def _count(self) -> None:
        """No machine without a reason (see `verdict`), and without a difference none that its pods cannot use."""
        outcome = self._outcome
        extra, of_pod = verdict.extra_machines(self._claims, self._ran)
        pods = self._pods()
        displaced = verdict.displaced(of_pod, pods, self._claim_of)
        outcome.machines, outcome.displaced = len(self._ran), len(displaced)
        outcome.decided = len(self._ran) - len(extra)
        outcome.notes = [f"{self._about(name)} after {self._firsts(name, of_pod, pods)}" for name in sorted(extra)]
        state = self._world.describe
        following = {pod["metadata"]["uid"] for pod in pods if verdict.follows(pod)}
        early = {name for name in self._early if not verdict.stated(self._claims[name]) & following}
        assert not early, f"bought while machines for all of their pods were coming: {early}\n{state()}"
        assert len(extra) <= len(displaced) + outcome.preempted, f"machines without a reason: {extra}\n{state()}"
        wrong = verdict.unexplained(extra, self._claims, pods, self._claim_of)
        excused = self._drawn.facts or outcome.preempted
        assert excused or not wrong, f"no pod took the room of earlier machines: {wrong}\n{state()}"
        useless = verdict.useless(of_pod, pods, self._claim_of)
        alone = [pod for pod in pods if verdict.waits(pod) and not verdict.follows(pod)]
        waiting = {pod["metadata"]["name"] for pod in alone} & useless.keys()
        assert self._drawn.facts or not waiting, f"machines of pods that wait take none: {waiting}\n{state()}"
        many = {name: machines for name, machines in useless.items() if len(machines) > verdict.MOST_FOR_ONE}
        assert not many, f"more than {verdict.MOST_FOR_ONE} machines for one pod: {many}\n{state()}"

    def _about(self, name: str) -> str:
        pool = next(
            (one for one in self._world.cloud.pools.values() if one.tags.get(labels.TAG_CLAIM_NAME) == name), None
        )
        return f"{name} ({pool.size if pool else 'gone'})"

    def _firsts(self, name: str, of_pod: dict[str, list[str]], pods: list[Json]) -> str:
        """The pods of a machine, each with the machine that it was bought before, and the one where it is."""
        uids, found = verdict.stated(self._claims[name]), []
        for pod in pods:
            if (uid := pod["metadata"]["uid"]) in uids:
                there = self._claim_of.get(pod["spec"].get("nodeName", ""), "nowhere")
                found.append(f"{self._about(of_pod[uid][0])} for {pod['metadata']['name']}, which is on {there}")
        return "; ".join(found)

    async def _remove(self) -> None:
        """Users delete the pods, and set consolidateAfter where it is Never: all machines go."""
        world = self._world
        for pod in self._pods():
            world.store.delete("pods", pod["metadata"]["name"], "default")
        for node_pool in self._drawn.node_pools:
            patch = {"spec": {"disruption": {"consolidateAfter": "0s"}}}
            world.store.patch("nodepools.karpenter.sh", node_pool["metadata"]["name"], patch)
        deadline = world.now + PATIENCE_SECONDS
        while world.store.list(CLAIMS):
            assert world.now < deadline, f"machines remain without pods\n{world.describe()}"
            await asyncio.sleep(LOOK_SECONDS)
        await world.settled()
        for node_pool in self._drawn.node_pools:
            await world.request("DELETE", path_of("nodepools.karpenter.sh", node_pool["metadata"]["name"]))
