"""Turns the changes in a simulated world into log lines and table rows, when they happen.

Everything shown was observed in the stores and servers; nothing is taken from the controller's memory. Repetitions are
left out: the shared LIST (counted), Events that repeat a condition, and a Ready condition that summarizes the others.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from aiohttp import web

from provisioner.api import labels
from provisioner.api.reasons import NOMINATED
from provisioner.api.text import printable
from provisioner.runtime.clock import Clock
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.snapshot import conditions, labels_of, pool_mark
from provisioner.simulator.world import World

from .diff import Text, claim_changes, node_changes, pod_changes
from .output.renderer import POD, LogLine, Style
from .rows import Moment, Row, rows

Json = dict[str, Any]
CONTROLLER = "gpu-provisioner"
CLAIMS = "nodeclaims.karpenter.sh"
POOL_TEXTS = {"running": "running", "failed": "failed", "deleting": "is being deleted", "gone": "deleted"}
SCHEDULER = "default-scheduler"
TICK_SECONDS = 0.25


class EventRecorder:
    """Passes each log line to `emit`. `time` is the loop's.

    `lists` counts the controller's LISTs; `listed`: it has listed the pools since one of them changed last.
    """

    def __init__(self, world: World, time: Callable[[], float], emit: Callable[[LogLine], None]) -> None:
        self._world = world
        self._start = time()
        self._time = time
        self._emit = emit
        self._claim_names: dict[str, str] = {}
        self.lists = 0
        self.listed = False
        world.store.subscribe(self._object_changed)
        world.cloud.subscribe(self._pool_changed)
        world.after.append(self._responded)

    def user(self, text: str) -> None:
        """Emit a line for an action of the simulated user."""
        self._line("", "user", text, "dim")

    def _line(self, claim: str, source: str, text: str, style: Style) -> None:
        at = self._time() - self._start
        self._emit(LogLine(at=at, claim=claim, source=source, text=printable(text), style=style))

    async def _responded(self, call: Call, response: web.StreamResponse) -> None:
        if call.system != "arm" or call.target.kind != "pools":
            return
        if call.verb == "LIST" and response.status == HTTPStatus.OK:
            self.lists += call.who == CONTROLLER
            self.listed |= call.who == CONTROLLER
            return
        if call.who == CONTROLLER:
            name = call.target.name
            ok = response.status < HTTPStatus.BAD_REQUEST or response.status == HTTPStatus.NOT_FOUND
            text = f"{call.verb} agent pool -> {response.status} {HTTPStatus(response.status).phrase}"
            self._line(self._claim_names.get(name, name), "ARM", text, "dim" if ok else "error")

    def _pool_changed(self, kind: str, pool: Pool) -> None:
        if not pool_mark(pool):
            return
        name = self._claim_names.setdefault(pool.name, pool.tags.get(labels.TAG_CLAIM_NAME, pool.name))
        self.listed = False
        if kind in POOL_TEXTS:
            self._line(name, "AgentPool", POOL_TEXTS[kind], "error" if kind == "failed" else "plain")

    def _object_changed(self, event: str, resource: str, obj: Json, old: Json | None) -> None:
        name = obj["metadata"]["name"]
        if resource == "nodes" and labels.CLAIM_UID in labels_of(obj):
            pool = labels_of(obj).get(labels.AGENTPOOL, "")
            self._lines(self._claim_names.get(pool, pool), "Node", node_changes(event, obj, old))
        elif resource == CLAIMS:
            if event == "DELETED":
                self._claim_deleted(name, obj["metadata"]["uid"])
            else:
                self._lines(name, "NodeClaim", claim_changes(event, obj, old))
        elif resource == "pods":
            self._lines(name, POD, pod_changes(event, obj, old))
        elif resource == "events" and event == "ADDED":
            self._event_added(obj)

    def _event_added(self, event: Json) -> None:
        """An Event of a pod, or a warning about a claim that its conditions do not state."""
        about, text = event["involvedObject"], f"{event['reason']}: {event['message']}"
        warning = event.get("type") == "Warning"
        if about["kind"] == "Pod" and (warning or event["reason"] == NOMINATED):
            if event.get("reportingComponent") == SCHEDULER:
                text = f"{event['reason']} (kube-scheduler): {event['message']}"
            self._line(about["name"], POD, text, "error" if warning else "plain")
        elif warning:
            claims = self._world.store.each_served(CLAIMS)
            shown = (one for claim in claims if claim["metadata"]["name"] == about["name"] for one in conditions(claim))
            if event["message"] not in {one.get("message") for one in shown}:
                self._line(about["name"], "Event", text, "error")

    def _lines(self, claim: str, source: str, texts: Iterator[Text]) -> None:
        for text, style in texts:
            self._line(claim, source, text, style)

    def _claim_deleted(self, name: str, uid: str) -> None:
        """Both counts are 0 after a correct termination."""
        pools = sum(pool_mark(pool) == uid for pool in self._world.cloud.pools.values())
        nodes = sum(labels_of(node).get(labels.CLAIM_UID) == uid for node in self._world.store.list("nodes"))
        text = f"deleted; remaining: {pools} agent pools, {nodes} Nodes"
        self._line(name, "NodeClaim", text, "error" if pools or nodes else "success")


class RowTracker:
    """Keeps the rows of one world, and the times to Ready of all claims.

    `prices`: in USD an hour, by the name of the size in lower case, for runs that show them.
    `show` gets the rows, with the seconds since the start, on changes and on every tick.
    """

    def __init__(
        self,
        world: World,
        time: Callable[[], float],
        clock: Clock,
        show: Callable[[Sequence[Row], float], None],
        *,
        prices: Mapping[str, float],
    ) -> None:
        self._world = world
        self._prices = prices
        self._time = time
        self._start = time()
        self._clock = clock
        self._show = show
        self._events: dict[str, str] = {}
        self._rows: tuple[Row, ...] = ()
        self.ready_seconds: dict[str, float] = {}
        world.store.subscribe(self._object_changed)
        world.cloud.subscribe(lambda *_: self._update())

    def line(self, line: LogLine) -> None:
        """Keep a log line as the last event of its claim."""
        if line.claim:
            self._events[line.claim] = f"{line.source} {line.text}"
            self._update()

    async def tick(self) -> None:
        """Show the rows regularly, because they contain durations; until cancelled."""
        while True:
            self._update()
            await asyncio.sleep(TICK_SECONDS)

    def _object_changed(self, _event: str, resource: str, _obj: Json, _old: Json | None) -> None:
        if resource in (CLAIMS, "nodes"):
            self._update()

    def _update(self) -> None:
        store = self._world.store
        now = Moment(at=self._time() - self._start, time=self._clock.now())
        pools = self._world.cloud.pools.values()
        claims, nodes = store.each_served(CLAIMS), store.each("nodes")
        self._rows = rows(self._rows, claims, nodes, pools, events=self._events, now=now, prices=self._prices)
        self.ready_seconds |= {row.name: row.ready_seconds for row in self._rows if row.ready_seconds is not None}
        self._show(self._rows, now.at)
