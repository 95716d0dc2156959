"""A check in every simulation: KAITO would neither misread a state nor create a surplus machine.

Each version of each claim and Node is checked when it is written, so that short-lived states are checked as well. Three
states are violations, under the name KAITO:
    * a claim names a Node and has no Ready condition, which KAITO takes for ready;
    * a machine is counted twice: two claims name one Node, or a claim's Ready Node lacks the node pool's label, which
      makes it one that the user brought;
    * a surplus machine would be created: a controller releases a claim whose Node is still Ready (a Workspace counts
      claims only), or a claim stays Initialized without a Ready Node for longer than a controller needs to report it
      (the RAGEngine then creates another).

Source: docs/references/kaito.md#what-kaito-reads, docs/references/kaito.md#contract (K4, K13).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from provisioner.simulator.audit_log import current_write
from provisioner.simulator.invariants import Violation
from provisioner.simulator.world import World

from . import kaito_predicates

Json = dict[str, Any]

NAME = "KAITO"
# K13: how long a claim may stay Initialized after its Node is no longer Ready.
NOTICE_SECONDS = 5.0
STORY_LINES = 60
CLAIMS = "nodeclaims.karpenter.sh"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What the watcher needs from its environment. `serving_since`: since when a controller has served, in seconds as
    `time`; inf: none does. `by_controller`: whether a controller caused the deletion of the claim that is being
    reported. `notice_seconds`: how long a claim may be misleading.
    """

    time: Callable[[], float]
    serving_since: Callable[[], float]
    by_controller: Callable[[Json], bool]
    violated: Callable[[str], None]
    notice_seconds: float = NOTICE_SECONDS


def beside(world: World, time: Callable[[], float], serving_since: Callable[[], float]) -> "KaitoWatcher":
    """Watch a simulation: the watcher's violations are violations of the simulation."""

    def by_controller(claim: Json) -> bool:
        call = current_write("claim", claim["metadata"]["name"])
        return call is not None and call.who in world.invariants.controllers

    def violated(what: str) -> None:
        world.invariants.violations.append(Violation(NAME, time(), what, world.audit_log.tail(STORY_LINES)))

    stage = Stage(time=time, serving_since=serving_since, by_controller=by_controller, violated=violated)
    made = KaitoWatcher(stage)
    world.store.subscribe(made.on_object)
    return made


class KaitoWatcher:
    """Call `on_object` with every change in order, and `look` from time to time."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._claims: dict[str, Json] = {}
        self._nodes: dict[str, Json] = {}
        self._named: dict[str, str] = {}
        self._misleading_since: dict[str, float] = {}

    def look(self) -> None:
        """Check states with a time limit."""
        if not self._misleading_since:
            return
        now = self._stage.time()
        for uid, since in list(self._misleading_since.items()):
            lasts = now - max(since, self._stage.serving_since())
            if lasts > self._stage.notice_seconds:
                del self._misleading_since[uid]
                name = self._claims[uid]["metadata"]["name"]
                self._stage.violated(f"{name} has been Initialized without a Ready Node for {lasts:.1f} s: one more")

    def on_object(self, event: str, resource: str, obj: Json, before: Json | None) -> None:
        """A claim or a Node was ADDED, MODIFIED or DELETED; `before` is what it was."""
        if resource == CLAIMS:
            self._on_claim(obj, before, gone=event == "DELETED")
        elif resource == "nodes":
            self._on_node(obj, gone=event == "DELETED")

    def _on_claim(self, claim: Json, before: Json | None, *, gone: bool) -> None:
        uid, name = claim["metadata"]["uid"], kaito_predicates.node_name(claim)
        if gone:
            self._let_go(claim)
            return
        if uid in self._claims and (former := kaito_predicates.node_name(self._claims[uid])) != name:
            self._release(former, uid)
        self._claims[uid] = claim
        if kaito_predicates.is_trapped(claim) and not (before and kaito_predicates.is_trapped(before)):
            self._stage.violated(f"{claim['metadata']['name']} names Node {name} and has no Ready condition")
        if name:
            other = self._claims.get(self._named.setdefault(name, uid))
            if other is not None and other is not claim:
                self._stage.violated(f"Node {name} is counted for {_names(other, claim)}")
            if name in self._nodes:
                self._check_brought(self._nodes[name])
        self._update(uid)

    def _let_go(self, claim: Json) -> None:
        meta, name = claim["metadata"], kaito_predicates.node_name(claim)
        node = self._nodes.get(name)
        for known in (self._claims, self._misleading_since):
            known.pop(meta["uid"], None)
        self._release(name, meta["uid"])
        if node and kaito_predicates.is_up(node) and self._stage.by_controller(claim):
            self._stage.violated(f"{meta['name']} is gone and its Node {node['metadata']['name']} serves: one more")

    def _release(self, node_name: str, uid: str) -> None:
        """The claim does not name this Node any more."""
        if self._named.get(node_name) == uid:
            del self._named[node_name]

    def _on_node(self, node: Json, *, gone: bool) -> None:
        name = node["metadata"]["name"]
        if gone:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = node
            self._check_brought(node)
        if uid := self._named.get(name):
            self._update(uid)

    def _check_brought(self, node: Json) -> None:
        claim = self._claims.get(self._named.get(node["metadata"]["name"], ""))
        if (
            claim is None
            or kaito_predicates.NODEPOOL not in kaito_predicates.labels_of(claim)
            or not kaito_predicates.is_up(node)
        ):
            return
        if kaito_predicates.NODEPOOL not in kaito_predicates.labels_of(node):
            self._stage.violated(f"{claim['metadata']['name']} and its Node, which has no node pool, count as two")

    def _update(self, uid: str) -> None:
        """Record whether the RAGEngine would treat this claim's machine as lost."""
        claim = self._claims[uid]
        node = self._nodes.get(kaito_predicates.node_name(claim))
        is_waiting_eviction = kaito_predicates.is_deleting(claim) or not kaito_predicates.is_true(claim, "Initialized")
        if is_waiting_eviction or (node is not None and kaito_predicates.is_up(node)):
            self._misleading_since.pop(uid, None)
        else:
            self._misleading_since.setdefault(uid, self._stage.time())


def _names(*claims: Json) -> str:
    return " and ".join(claim["metadata"]["name"] for claim in claims)
