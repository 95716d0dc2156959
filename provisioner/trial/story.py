"""The story of claims, told live: what the cluster, the cloud and the controller do, a line each.

Every line is something that happened on the wire or in the stores, at the moment it happened; nothing is told
from what the program believes. What says nothing new is left out: the shared LIST (counted), Events that repeat a
condition, a Ready that only sums up the others.
"""

from collections.abc import Callable, Iterator
from http import HTTPStatus

from aiohttp import web

from provisioner.api import labels
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.snapshot import labels_of, pool_mark
from provisioner.simulator.world import World

from .changes import Words, claim_words, conditions, node_words
from .claims import Json
from .printing import Line, Tone

CONTROLLER = "gpu-provisioner"
CLAIMS = "nodeclaims.karpenter.sh"
POOL_WORDS = {"running": "is running", "failed": "failed", "deleting": "is being deleted", "gone": "is gone"}


class Story:
    """Listens to a world and hands each line to `tell`. `time` is the loop's.

    `lists` counts the controller's LISTs; `listed`: it has listed the pools since one of them changed last.
    """

    def __init__(self, world: World, time: Callable[[], float], tell: Callable[[Line], None]) -> None:
        self._world = world
        self._began = time()
        self._time = time
        self._tell = tell
        self._claim_names: dict[str, str] = {}
        self.lists = 0
        self.listed = False
        world.store.subscribe(self._object_changed)
        world.cloud.subscribe(self._pool_changed)
        world.after.append(self._answered)

    def say(self, text: str) -> None:
        """Tell a line of one's own."""
        self._line("", "you", text, "quiet")

    def _line(self, claim: str, who: str, text: str, tone: Tone) -> None:
        self._tell(Line(at=self._time() - self._began, claim=claim, who=who, text=text, tone=tone))

    async def _answered(self, call: Call, response: web.StreamResponse) -> None:
        if call.system != "arm" or call.target.kind != "pools":
            return
        if call.verb == "LIST" and response.status == HTTPStatus.OK:
            self.lists += call.who == CONTROLLER
            self.listed |= call.who == CONTROLLER
            return
        if call.who == CONTROLLER:
            name = call.target.name
            fine = response.status < HTTPStatus.BAD_REQUEST or response.status == HTTPStatus.NOT_FOUND
            text = f"{call.verb} agent pool -> {response.status} {HTTPStatus(response.status).phrase}"
            self._line(self._claim_names.get(name, name), "ARM", text, "quiet" if fine else "bad")

    def _pool_changed(self, kind: str, pool: Pool) -> None:
        if not pool_mark(pool):
            return
        name = self._claim_names.setdefault(pool.name, pool.tags.get(labels.TAG_CLAIM_NAME, pool.name))
        self.listed = False
        if kind in POOL_WORDS:
            self._line(name, "AgentPool", POOL_WORDS[kind], "bad" if kind == "failed" else "plain")

    def _object_changed(self, event: str, resource: str, obj: Json, old: Json | None) -> None:
        name = obj["metadata"]["name"]
        if resource == "nodes" and labels.CLAIM_UID in labels_of(obj):
            pool = labels_of(obj).get(labels.AGENTPOOL, "")
            self._lines(self._claim_names.get(pool, pool), "Node", node_words(event, obj, old))
        elif resource == CLAIMS:
            if event == "DELETED":
                self._tell_the_end(name, obj["metadata"]["uid"])
            else:
                self._lines(name, "NodeClaim", claim_words(event, obj, old))
        elif resource == "events" and event == "ADDED" and obj.get("type") == "Warning":
            about = obj["involvedObject"]["name"]
            said = {c.get("message") for c in conditions(self._world.store.get(CLAIMS, about))}
            if obj["message"] not in said:
                self._line(about, "Event", f"{obj['reason']}: {obj['message']}", "bad")

    def _lines(self, claim: str, who: str, words: Iterator[Words]) -> None:
        for text, tone in words:
            self._line(claim, who, text, tone)

    def _tell_the_end(self, name: str, uid: str) -> None:
        """A claim is gone: what is left of it should be nothing."""
        pools = sum(pool_mark(pool) == uid for pool in self._world.cloud.pools.values())
        nodes = sum(labels_of(node).get(labels.CLAIM_UID) == uid for node in self._world.store.list("nodes"))
        text = f"is gone; left of it: {pools} agent pools, {nodes} Nodes"
        self._line(name, "NodeClaim", text, "bad" if pools or nodes else "good")
