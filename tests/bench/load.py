"""The program on a large cluster of other owners' Nodes and pods, on a real API server: memory, CPU, requests, stalls.

NODES (1000), PODS (4000), PENDING (1000) and OURS (20) are read from the environment: running pods of 250 Deployments
on Nodes of the size that both have in AKS, pending pods of 50 shapes, and the limit of machines, which is doubled after
a restart. kube-scheduler binds the pending pods. Each Node sends its status every five minutes, as kubelets do.

The first process is the program as users run it. The second one, which starts while a claim waits for its machine, has
a thread that measures its event loop. Requests and bytes are the API server's figures.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from itertools import cycle
from pathlib import Path

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from rich.console import Console

from provisioner.simulator.azure.settings import AzureSettings
from tests.cluster.bystanders import MERGE, NODES_PATH, at_once
from tests.cluster.controlplane import ControlPlane
from tests.cluster.realstore import path_of
from tests.cluster.scheduler import kube_scheduler
from tests.ports import free_port

from .apiserver import CONTROLLER, Call, Environment, environment
from .figures import Figure, percentile
from .footprint import foreign_node
from .process import Controller
from .stage import CLAIMS, MOST_POOLS
from .workloads import NODE_POOL, Json, gpu_pod, node_class, node_pool, running_pod

INSTANT = AzureSettings(
    throttle=False, max_agent_pools=MOST_POOLS, create_seconds=(0.0, 0.0), delete_seconds=(0.0, 0.0)
)
WORKLOADS, NAMESPACES, SHAPES = 250, 40, 50
GPUS = (1, 1, 1, 2, 4)
LATE = "late"
HEARTBEAT_SECONDS, IDLE_SECONDS, NOT_READY_SECONDS = 300.0, 60.0, 120.0
AT_ONCE = 20
START_SECONDS, WAIT_SECONDS, SETTLE_SECONDS = 300.0, 600.0, 70.0
# ADR 48's figure for 5,000 Nodes and 20,000 pods, and the limit for stalls of the loop.
MEMORY_MIB, PEAK_MIB, STALL_SECONDS = {1000: 140.0, 5000: 320.0}, 400.0, 0.2
LOOK_SECONDS = 0.5
STRATEGIC = "application/strategic-merge-patch+json"
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
# Neither the Lease nor reviews of the tokens of scrapes change an object of a user.
UNCOUNTED = frozenset({"leases", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews"})
DECISION = "karpenter_scheduler_scheduling_duration_seconds"
CACHED = "gpu_provisioner_cache_objects"
LATE_BY = "gpu_provisioner_event_loop_lag_seconds"
EVALUATION = "karpenter_voluntary_disruption_decision_evaluation_duration_seconds"


class _Load:
    """The cluster, its size, and the measurements of one process after another."""

    def __init__(self, cp: ControlPlane, env: Environment, console: Console) -> None:
        self.cp, self.env, self.console = cp, env, console
        self.nodes, self.pods = _number("NODES", 1000), _number("PODS", 4000)
        self.pending, self.ours = _number("PENDING", 1000), _number("OURS", 20)
        self.found: list[Figure] = []
        self.port = free_port()
        self.names: list[str] = []

    @property
    def about(self) -> str:
        return f"{self.nodes:,} Nodes, {self.pods:,} pods"

    def say(self, what: str) -> None:
        load = os.getloadavg()[0]
        self.console.print(f"{self.env.now():%H:%M:%S} load {load:.1f}: {what}", soft_wrap=True)

    def add(self, name: str, unit: str, *measured: float, labels: tuple[str, ...] = ("",), note: str = "",
            target: tuple[float, ...] = (), asserted: bool = False) -> None:  # fmt: skip
        figure = Figure(name=f"{self.about}: {name}", unit=unit, labels=labels, measured=measured, target=target,
                        asserted=asserted, note=note)  # fmt: skip
        self.found.append(figure)
        self.say(f"{name} {'/'.join(labels)}: {' / '.join(f'{value:.3g}' for value in measured)} {unit}; {note}")

    async def fill(self) -> None:
        """Create what the cluster has before the program starts."""
        began = asyncio.get_running_loop().time()
        hand = self.env.hand
        nodes = [foreign_node(number) for number in range(self.nodes)]
        spaces = [{"metadata": {"name": f"namespace-{number}"}} for number in range(NAMESPACES)]
        await at_once([partial(hand.demand, "POST", path_of("namespaces"), one) for one in spaces], AT_ONCE)
        await at_once([partial(self._join, node) for node in nodes], AT_ONCE)
        self.names = [node["metadata"]["name"] for node in nodes]
        await at_once([partial(self._run, number) for number in range(self.pods)], AT_ONCE)
        await self.env.apply("agentpoolnodeclasses.gpu-provisioner.sh", node_class())
        await self.env.apply("nodepools.karpenter.sh", node_pool(limits={"nodes": str(self.ours)}))
        self.say(f"{self.about} created in {asyncio.get_running_loop().time() - began:.0f} s")

    async def _join(self, node: Json) -> None:
        """Create a Node, without the taint that the admission gives it, which a Ready Node loses."""
        await self.env.hand.demand("POST", NODES_PATH, node)
        path = f"{NODES_PATH}/{node['metadata']['name']}"
        await self.env.hand.demand("PATCH", path, {"spec": {"taints": None}}, MERGE)

    async def _run(self, number: int) -> None:
        pod = running_pod(number, self.names[number % self.nodes], WORKLOADS)
        del pod["metadata"]["managedFields"]
        path = path_of("pods", namespace=pod["metadata"]["namespace"])
        await self.env.hand.demand("POST", path, pod)
        status = f"{path}/{pod['metadata']['name']}/status"
        await self.env.hand.demand("PATCH", status, {"status": pod["status"]}, STRATEGIC)

    async def want(self) -> None:
        """Create the pending pods."""
        await at_once([partial(self._wait, number) for number in range(self.pending)], AT_ONCE)

    async def _wait(self, number: int) -> None:
        pod = gpu_pod(f"pending-{number}", GPUS[number % len(GPUS)])
        shape = number % SHAPES // len(GPUS)
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = f"{1000 + 100 * shape}m"
        path = path_of("pods", namespace="default")
        await self.env.hand.demand("POST", path, pod)

    async def heartbeats(self) -> None:
        """The status of one Node after the other, until cancelled."""
        for name in cycle(self.names):
            beat = {"type": "Ready", "lastHeartbeatTime": f"{self.env.now():%Y-%m-%dT%H:%M:%SZ}"}
            await self._condition(name, beat)
            await asyncio.sleep(HEARTBEAT_SECONDS / self.nodes)

    async def become(self, status: str, reason: str) -> None:
        """Change the condition Ready of all Nodes, ours included."""
        now = f"{self.env.now():%Y-%m-%dT%H:%M:%SZ}"
        change = {"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": now}
        listed = await self.env.hand.demand("GET", f"{NODES_PATH}?labelSelector=!kubernetes.azure.com/label0")
        ours = [node["metadata"]["name"] for node in listed["items"]]
        await at_once([partial(self._condition, name, change) for name in (*ours, *self.names)], AT_ONCE)

    async def _condition(self, name: str, condition: Json) -> None:
        body = {"status": {"conditions": [condition]}}
        await self.env.hand.demand("PATCH", f"{NODES_PATH}/{name}/status", body, STRATEGIC)

    async def bytes_listed(self) -> Counter[str]:
        """The bytes of all LISTs that the API server has answered, by resource."""
        samples = await _scrape(self.cp.session(), f"{self.cp.url}/metrics")
        sizes: Counter[str] = Counter()
        for one in samples:
            if one.name == "apiserver_response_sizes_sum" and one.labels["verb"] == "LIST":
                sizes[one.labels["resource"]] += int(one.value)
        return sizes

    async def metrics(self) -> list[Sample]:
        """The program's own."""
        return await _scrape(self.cp.session(), f"http://127.0.0.1:{self.port}/metrics")

    def calls(self, since: datetime) -> list[Call]:
        """The program's requests that are not watches."""
        return self.env.calls(since, user=CONTROLLER)

    def memory(self, when: str, controller: Controller) -> None:
        now, most = controller.memory_mib()
        target = (MEMORY_MIB.get(self.nodes, PEAK_MIB), PEAK_MIB)
        self.add(f"resident memory, {when}", "MiB", now, most, labels=("now", "peak"), target=target)

    async def idle(self, when: str, controller: Controller) -> None:
        """CPU and requests of a minute in which nothing changes but heartbeats."""
        used, began = controller.cpu_seconds(), asyncio.get_running_loop().time()
        await self.quiet(when)
        minutes = (asyncio.get_running_loop().time() - began) / 60
        used = controller.cpu_seconds() - used
        self.add(f"CPU, {when}", "s/min", used / minutes, target=(2.4 if self.nodes >= 5000 else 0.6,))

    async def quiet(self, when: str) -> None:
        """Requests of a minute in which nothing changes but heartbeats."""
        self.env.begin()
        since = self.env.now()
        await asyncio.sleep(IDLE_SECONDS)
        minutes = (self.env.now() - since).total_seconds() / 60
        calls = self.calls(since)
        note = f"{_each(calls)}; ARM: {dict(Counter(self.env.arm_calls))}"
        an_hour = (60 * len(calls) / minutes, 60 * len(self.env.arm_calls) / minutes)
        self.add(f"requests an hour, {when}", "calls", *an_hour,
                 labels=("Kubernetes", "ARM"), note=note)  # fmt: skip
        # Events about pending pods are repeated every five minutes, as Karpenter's are.
        writes = [call for call in _writes(calls) if call.kind != "events"]
        self.add(
            f"writes, {when}, Events aside", "count", len(writes), target=(0.0,), asserted=True, note=_each(writes)
        )

    async def decisions(self, when: str, before: list[Sample], controller: Controller, used: float) -> None:
        after = await self.metrics()
        for family, what in ((DECISION, "decisions for pods"), (EVALUATION, "passes of disruption")):
            times = _total(after, f"{family}_count") - _total(before, f"{family}_count")
            seconds = _total(after, f"{family}_sum") - _total(before, f"{family}_sum")
            self.add(f"{what}, {when}", "s", seconds / max(times, 1), labels=("mean",),
                     note=f"{times:.0f}, the longest at most {_longest(before, after, family):g} s")  # fmt: skip
        self.add(f"CPU, {when}", "s", controller.cpu_seconds() - used,
                 note=f"event loop late by {_total(after, LATE_BY):.2f} s in a minute")  # fmt: skip

    async def first(self) -> None:
        """The program as users run it."""
        started = self.env.now()
        async with self._controller() as controller:
            await self._started("first start", started)
            self.memory("started", controller)
            await asyncio.sleep(SETTLE_SECONDS)
            await self.idle("idle", controller)
            used, before = controller.cpu_seconds(), await self.metrics()
            await self.want()
            await self.env.until(lambda: len(self.env.ready) >= self.ours, WAIT_SECONDS, "machines are Ready")
            await asyncio.sleep(SETTLE_SECONDS)
            await self.decisions(f"{self.pending:,} pods pending, {self.ours} machines", before, controller, used)
            self.memory("machines Ready", controller)
            used, before = controller.cpu_seconds(), await self.metrics()
            await self.idle("pods pending at the limit", controller)
            await self.decisions("pods pending at the limit, a minute", before, controller, used)

    async def second(self) -> None:
        """A restart with work to do, another decision, and all Nodes NotReady for two minutes."""
        await self.env.create([LATE])
        stalls = self.env.folder / "stalls.json"
        marks = {"begun": asyncio.get_running_loop().time()}
        listed, started = await self.bytes_listed(), self.env.now()
        async with self._controller(stalls=stalls) as controller:
            await self.env.until(lambda: LATE in self.env.ready, WAIT_SECONDS, "the waiting claim is Ready")
            await self._started("restart", started)
            # Of the first start, they include those of kube-scheduler.
            grown = await self.bytes_listed() - listed
            note = ", ".join(f"{kind} {size / 2**20:.1f}" for kind, size in grown.most_common(4))
            self.add("restart: bytes of LISTs", "MiB", grown.total() / 2**20, note=note)
            useful = [call for call in _writes(self.calls(started)) if (call.kind, call.name) == ("nodeclaims", LATE)]
            put = self.env.requested["PUT", LATE]
            written = [min(call.at for call in useful), put]
            self.add("restart → first write of a waiting claim, and its PUT", "s",
                     *((at - started).total_seconds() for at in written), labels=("write", "PUT"),
                     target=(15.0 if self.nodes >= 5000 else 5.0,))  # fmt: skip
            self.memory("restarted", controller)
            marks["restart"] = asyncio.get_running_loop().time()
            used, before = controller.cpu_seconds(), await self.metrics()
            limits = {"spec": {"limits": {"nodes": str(2 * self.ours)}}}
            path = path_of("nodepools.karpenter.sh", NODE_POOL)
            await self.env.hand.demand("PATCH", path, limits, MERGE)
            await self.env.until(lambda: len(self.env.ready) > self.ours + 1, WAIT_SECONDS, "another machine is Ready")
            await asyncio.sleep(10.0)
            await self.decisions("limit raised", before, controller, used)
            marks["decision"] = asyncio.get_running_loop().time()
            await self._not_ready(controller)
            marks["NotReady"] = asyncio.get_running_loop().time()
            await asyncio.sleep(SETTLE_SECONDS)
            await self.quiet("at the end")
            self.memory("at the end", controller)
            marks["idle"] = asyncio.get_running_loop().time()
        found = json.loads(stalls.read_text())
        for (_, begun), (what, ended) in zip(marks.items(), list(marks.items())[1:], strict=False):
            late = [seconds for at, seconds in found if begun <= at <= ended]
            self.add(f"stalls of the event loop, {what}", "s", percentile(late, 0.99), max(late), labels=("p99", "max"),
                     target=(STALL_SECONDS, STALL_SECONDS),
                     note=f"{sum(one > 1 for one in late)} of {len(late)} above 1 s")  # fmt: skip

    async def _not_ready(self, controller: Controller) -> None:
        self.env.begin()
        since, used = self.env.now(), controller.cpu_seconds()
        await self.become("Unknown", "NodeStatusUnknown")
        await asyncio.sleep(NOT_READY_SECONDS)
        await self.become("True", "KubeletReady")
        await asyncio.sleep(10.0)
        used = controller.cpu_seconds() - used
        calls = self.calls(since)
        removals = [call for call in calls if call.verb.startswith("delete")]
        of_pools = self.env.arm_calls.count("DELETE")
        self.add("all Nodes NotReady for two minutes: removals", "count", len(removals), of_pools,
                 labels=("Kubernetes", "ARM"), target=(0.0, 0.0), asserted=True, note=_each(removals))  # fmt: skip
        per_second = Counter(call.at.replace(microsecond=0) for call in _writes(calls))
        self.add("all Nodes NotReady for two minutes: writes", "count", len(_writes(calls)),
                 max(per_second.values(), default=0), labels=("all", "most in a second"),
                 note=f"{_each(_writes(calls))}; {used:.1f} s of CPU")  # fmt: skip

    async def _started(self, what: str, started: datetime) -> None:
        async with asyncio.timeout(START_SECONDS):
            while True:
                if self._cached(await self.metrics()):
                    break
                await asyncio.sleep(LOOK_SECONDS)
        lists = [call for call in self.calls(started) if call.verb == "list"]
        last = max(call.at for call in lists if call.kind in ("nodes", "pods"))
        self.add(f"{what}: all Nodes and pods listed", "s", (last - started).total_seconds(), note=_each(lists))

    def _cached(self, samples: Iterable[Sample]) -> bool:
        cached = {one.labels["resource"]: one.value for one in samples if one.name == CACHED}
        return cached.get("nodes", 0.0) >= self.nodes and cached.get("pods", 0.0) >= self.pods

    @asynccontextmanager
    async def _controller(self, stalls: Path | None = None) -> AsyncIterator[Controller]:
        self.env.begin()
        settings = {"METRICS_PORT": str(self.port)}
        async with self.env.controller(stalls_file=stalls, within_seconds=START_SECONDS, **settings) as controller:
            yield controller


async def measure(cp: ControlPlane, console: Console) -> list[Figure]:
    """About ten minutes, and as long as the objects need to be created; the figures are also printed one by one."""
    async with environment(cp, INSTANT, instant=True, watched=(CLAIMS,)) as env:
        load = _Load(cp, env, console)
        await load.fill()
        async with kube_scheduler(cp), asyncio.TaskGroup() as tasks:
            beats = tasks.create_task(load.heartbeats())
            await load.first()
            await load.second()
            beats.cancel()
    return load.found


def _writes(calls: Iterable[Call]) -> list[Call]:
    return [call for call in calls if call.verb in WRITES and call.kind not in UNCOUNTED]


def _each(calls: Iterable[Call]) -> str:
    counts = Counter(f"{call.verb} {call.kind}" for call in calls)
    return ", ".join(f"{what} {number}" for what, number in counts.most_common())


def _total(samples: Iterable[Sample], name: str) -> float:
    return sum(sample.value for sample in samples if sample.name == name)


def _longest(before: list[Sample], after: list[Sample], family: str) -> float:
    """The smallest bound of the histogram that all observations between two scrapes are below."""
    name = f"{family}_bucket"
    bounds = sorted({float(sample.labels["le"]) for sample in after if sample.name == name})

    def grown(bound: float) -> float:
        return sum(
            sign * one.value
            for sign, samples in ((1, after), (-1, before))
            for one in samples
            if one.name == name and float(one.labels["le"]) == bound
        )

    return next((bound for bound in bounds if grown(bound) >= grown(bounds[-1])), 0.0)


async def _scrape(session: aiohttp.ClientSession, url: str) -> list[Sample]:
    async with session, session.get(url) as answer:
        assert answer.status == 200, await answer.text()
        families = text_string_to_metric_families(await answer.text())
        return [sample for family in families for sample in family.samples]


def _number(name: str, default: int) -> int:
    return int(os.environ.get(name, str(default)))
