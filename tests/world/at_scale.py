"""The whole program beside thousands of machines, and what it computes after one event.

One machine is bought in the simulated world and copied. API server and cloud are dictionaries here, whose work is not
counted. Work is counted in operations of the interpreter in the program's modules, and objects in what their functions
return, so that it is the same in each run.
"""

import asyncio
import functools
import json
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, TypeVar, cast

import msgspec
import pytest

from cloudprovider.azure.agentpool import from_agent_pool, pool_name
from cloudprovider.azure.cloud import AksCloud
from cloudprovider.errors import NotFound
from cloudprovider.interface import BeforePage, Cluster, Instance, InstanceState, immediately
from controllers.model.policy import Policy
from provisioner.api.meta import ObjectMeta
from provisioner.api.nodeclaim import NodeClaim
from provisioner.operator.config import Clients, Config
from provisioner.operator.operator import Operator
from provisioner.runtime import resources
from provisioner.runtime.compute import inline
from provisioner.runtime.decoding import ObjectList
from provisioner.runtime.kube import KubeError
from provisioner.runtime.metrics import Metrics
from provisioner.runtime.objects import key_of
from provisioner.runtime.resources import Resource
from provisioner.runtime.watch import EventType, WatchEvent
from provisioner.runtime.workqueue import WorkQueue
from provisioner.runtime.write_through import WriteThrough
from provisioner.simulator.azure.bodies import pool_body
from provisioner.simulator.loop import VirtualClock, run

from .demand import claims_of, node_class, node_pool, pending, pod
from .harness import EPOCH, Json, Sim, simulate

T = TypeVar("T")
# By task and function.
Work = Counter[tuple[str, str]]

ROOT = Path(__file__).parents[2]
PROGRAM = tuple(f"{ROOT / folder}/" for folder in ("controllers", "cloudprovider", "provisioner"))
MACHINE: tuple[Resource[Any], ...] = (resources.NODECLAIMS, resources.NODES, resources.PODS)
SHARED: tuple[Resource[Any], ...] = (resources.NODEPOOLS, resources.NODECLASSES, resources.CRDS, resources.NAMESPACES)
# Every watch is open, and the agent pools are listed.
FILLED_SECONDS = 2.0


class Api:
    """The requests of a client of the API server that the program sends while nothing has to be written."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = defaultdict(dict)
        self.caches = WriteThrough()
        self.writes: list[str] = []
        self._version = 1_000_000
        self._watches: dict[str, list[asyncio.Queue[WatchEvent[Any] | KubeError]]] = defaultdict(list)

    def fenced(self, _: object) -> "Api":
        return self

    async def list(self, resource: Resource[Any], *, digest: Callable[[Any], Any], **query: Any) -> ObjectList[Any]:
        selector = query.get("field_selector", "")
        named, on = selector.partition("metadata.name=")[2], selector.partition("spec.nodeName=")[2].partition(",")[0]
        found = [one for one in self.objects[resource.plural].values() if named in ("", one.metadata.name)]
        kept = (digest(one) for one in found if not on or one.spec.node_name == on)
        return ObjectList(tuple(one for one in kept if one is not None), str(self._version))

    async def watch(self, resource: Resource[Any], **_: Any) -> AsyncGenerator[WatchEvent[Any], None]:
        events = asyncio.Queue[WatchEvent[Any] | KubeError]()
        self._watches[resource.plural].append(events)
        while True:
            event = await events.get()
            if isinstance(event, KubeError):
                raise event
            yield event

    async def get(self, resource: Resource[Any], name: str, **_: Any) -> Any:
        return self.objects[resource.plural][name]

    async def create(self, _: Resource[Any], body: Any, **__: Any) -> Any:
        """An Event."""
        return body

    async def patch(self, resource: Resource[Any], name: str, *_: Any, **__: Any) -> Any:
        """Counted, and without effect."""
        self.writes.append(f"{resource.plural}/{name}")
        return self.objects[resource.plural].get(name)

    def send(self, resource: Resource[Any], one: Any, kind: EventType = EventType.MODIFIED) -> None:
        """The object changed."""
        one = self.store(resource, one)
        for events in self._watches[resource.plural]:
            events.put_nowait(WatchEvent(kind, one, str(self._version)))

    def store(self, resource: Resource[Any], one: Any) -> Any:
        """The object changed, and no watch tells it. Returns its new version."""
        self._version += 1
        meta = msgspec.structs.replace(one.metadata, resource_version=str(self._version))
        one = msgspec.structs.replace(one, metadata=meta)
        self.objects[resource.plural][key_of(one)] = one
        return one

    def end_watches(self, resource: Resource[Any]) -> None:
        """The versions of the caches are too old: each lists again."""
        watches = self._watches.pop(resource.plural, [])
        for events in watches:
            events.put_nowait(KubeError(410, "Expired", "too old resource version"))


class Pools:
    """A cloud in which nothing changes by itself."""

    def __init__(self, instances: Iterable[Instance], cluster: Cluster) -> None:
        self.instances = {one.name: one for one in instances}
        self._cluster = cluster

    async def list(self, *, before_page: BeforePage = immediately) -> list[Instance]:
        return [*self.instances.values()]

    async def create(self, claim: NodeClaim, name: str, *_: Any) -> Instance:
        first = next(iter(self.instances.values()))
        own = {"claim_uid": claim.uid, "claim_name": claim.name, "label_uid": claim.uid, "put_time": first.put_time}
        made = msgspec.structs.replace(first, name=name, state=InstanceState.CREATING, **cast("Any", own))
        self.instances[name] = made
        return made

    async def get(self, name: str) -> Instance:
        if name not in self.instances:
            raise NotFound("NotFound", name, status=404)
        return self.instances[name]

    async def cluster(self) -> Cluster:
        return self._cluster

    async def usages(self) -> dict[str, Any]:
        return {}

    async def skus(self) -> dict[str, Any]:
        return {}

    async def latest_image(self, _: str) -> str:
        return ""


class Fleet:
    """The running program and its machines, by number."""

    def __init__(self, api: Api, pools: Pools, operator: Operator) -> None:
        self.api, self.pools, self.operator = api, pools, operator

    def machine(self, number: int) -> tuple[Any, Any, Any, Instance]:
        """Its NodeClaim, Node, pod and agent pool, as they are now."""
        claim, node, used = ([*self.api.objects[kind.plural].values()][number] for kind in MACHINE)
        return claim, node, used, self.pools.instances[pool_name(claim)]


@functools.cache
def bought(consolidate_after: str) -> tuple[dict[str, list[str]], str]:
    """The objects of a cluster with one machine, which a pod uses, as JSON by resource; and its agent pool."""
    found: dict[str, list[str]] = {}
    instances = list[Instance]()

    async def story(sim: Sim) -> None:
        await sim.apply(node_class())
        await sim.apply(
            node_pool(disruption={"consolidationPolicy": "WhenEmpty", "consolidateAfter": consolidate_after})
        )
        await sim.start_controller()
        await pending(sim, pod("p"))
        await sim.until(lambda: [*map(_is_ready, claims_of(sim))] == [True], 1800.0, "the machine is there")
        await sim.settled()
        (claim,) = claims_of(sim)
        (pool,) = sim.pools_of(claim["metadata"]["uid"])
        instances.append(from_agent_pool(pool_body(sim.cloud.settings, pool)))
        for kind in (*MACHINE, *SHARED):
            listed = sim.store.list(f"{kind.plural}.{kind.group}".rstrip("."))
            found[kind.plural] = [json.dumps(one) for one in listed]
        found[resources.NODES.plural] = [json.dumps(one) for one in sim.nodes_of(pool.name)]

    simulate(story)
    return found, msgspec.json.encode(instances[0]).decode()


def _is_ready(claim: Json) -> bool:
    found = (claim.get("status") or {}).get("conditions") or ()
    return any((one["type"], one["status"]) == ("Ready", "True") for one in found)


def fill(api: Api, machines: int, consolidate_after: str) -> list[Instance]:
    """Copy the machine; returns the agent pools."""
    found, pool = bought(consolidate_after)
    for kind in SHARED:
        for text in found[kind.plural]:
            one = msgspec.json.decode(text, type=kind.type)
            api.objects[kind.plural][key_of(one)] = one
    first = {kind: msgspec.json.decode(found[kind.plural][0], type=kind.type) for kind in MACHINE}
    uids = [one.metadata.uid for one in first.values()]
    claim, _, used = first.values()
    known, instances = pool_name(claim), list[Instance]()
    for number in range(machines):
        uid = f"{number:08}-0000-4000-8000-000000000000"
        key = pool_name(NodeClaim(metadata=ObjectMeta(name=f"gpu-{number:06}", uid=uid)))
        changes = [
            (known, key),
            (f'"{claim.name}"', f'"gpu-{number:06}"'),
            (f'"{used.metadata.name}"', f'"p-{number:06}"'),
        ]
        changes += [(one, f"{uid[:-1]}{place}") for place, one in enumerate(uids)]
        for kind in MACHINE:
            one = msgspec.json.decode(_changed(found[kind.plural][0], changes), type=kind.type)
            api.objects[kind.plural][key_of(one)] = one
        instances.append(msgspec.json.decode(_changed(pool, changes), type=Instance))
    return instances


def _changed(text: str, changes: Iterable[tuple[str, str]]) -> str:
    for old, new in changes:
        text = text.replace(old, new)
    return text


def at_scale(machines: int, story: Callable[[Fleet], Coroutine[Any, Any, T]], *, consolidate_after: str = "Never") -> T:
    """What the story returns, beside the running program, whose caches are filled and whose queues are empty.

    The passes over all machines after a start are left out.
    """
    bought(consolidate_after)

    async def main() -> T:
        clock, api = VirtualClock(asyncio.get_running_loop(), EPOCH + timedelta(hours=1)), Api()
        instances = fill(api, machines, consolidate_after)
        version = instances[0].kubernetes_version
        cluster = Cluster(running=True, location="westeurope", kubernetes_version=version, max_pools=10 * machines)
        pools = Pools(instances, cluster)
        clients = clients_of(api, pools, clock)
        config = Config(policy=Policy(), elect=False, lease_name="", lease_namespace="", identity="")
        operator = Operator(clients, config)
        async with asyncio.TaskGroup() as tasks:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(WorkQueue, "add", lambda *_, **__: None)
                patched.setattr(WorkQueue, "add_after", lambda *_: None)
                running = tasks.create_task(operator.run(), name="operator")
                await asyncio.sleep(FILLED_SECONDS)
            found = await story(Fleet(api, pools, operator))
            running.cancel()
        return found

    return run(main, seed=1, epoch=EPOCH)


def clients_of(api: Api, pools: Pools, clock: VirtualClock) -> Clients:
    """The clients of a program that sends its requests there."""
    given: Any = {"kube": api, "lease_kube": api, "provider": pools}
    return Clients(**given, rng=Random(7), clock=clock, metrics=Metrics(), cloud=AksCloud(), compute=inline)


@contextmanager
def counted() -> Iterator[Work]:
    """The work of the program meanwhile. Workers of one controller are one task."""
    found = Work()

    def entered(frame: FrameType, _: str, __: object) -> Callable[..., Any] | None:
        code = frame.f_code
        if not code.co_filename.startswith(PROGRAM):
            return None
        task = asyncio.current_task()
        by = (task.get_name().rpartition("-")[0] or task.get_name()) if task is not None else ""
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        where = by, f"{code.co_filename.removeprefix(f'{ROOT}/')} {code.co_qualname}"

        def worked(_: FrameType, event: str, value: object) -> Callable[..., Any]:
            if event == "opcode":
                found[where] += 1
            elif event == "return" and isinstance(value, tuple | list | dict | set | frozenset):
                found[where] += len(value)
            return worked

        return worked

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        yield found
    finally:
        sys.settrace(before)
