"""Checks that voluntary commands leave no pod waiting (I19).

A controller deletes the NodeClaim of a healthy machine, and evicts its pods. The pod that their owner creates in the
place of each of them, from the same template, is bound within `RESTART_SECONDS`. A place exists, or its replacement was
Initialized, before the eviction, so that the simulated scheduler binds it in its next pass, after hundredths of a
second; the minute is for a Node whose taint is being removed.

Only what is certain is reported. Others may take the place: another pod is bound to a Node that has not the room any
more for all pods which the commands move. A place may be lost: its Node is removed, cordoned or tainted, is not Ready,
or offers less. Then nothing is reported of the commands under way.

Source: docs/references/rules.md#invariants.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from provisioner.api import labels

from .disruption_invariants import CACHE_SECONDS, has_ended, is_of_daemon_set, node_of
from .scheduling.nodes import host_ports
from .scheduling.nodes import snapshot as node_infos
from .scheduling.requests import Amounts, amounts, pod_requests
from .snapshot import Snapshot, condition, deleting, is_expired, labels_of

Json = dict[str, Any]
Violated = Callable[[str, str], None]

RESTART_SECONDS = 60.0
# An owner creates the next pod at once, or, as a StatefulSet, when the grace period of the last one has ended.
RECREATED_SECONDS = 120.0
CHECK_SECONDS = 30.0
# These create the next pod when the last one begins to end.
_EAGER = frozenset({"ReplicaSet", "ReplicationController"})
# By these a pod may not be bound to a Node that has room for it, because of the pods there.
_RELATIVE = ("affinity", "topologySpreadConstraints", "resourceClaims")
# What of a pod decides where it can run, besides its requests, host ports and volumes.
_SHAPE = ("nodeSelector", "tolerations", "schedulerName", "priority", *_RELATIVE)


@dataclass(kw_only=True)
class _Evicted:
    """A pod that a controller evicted. `until`: its owner creates the next one before; `command`: the NodeClaim."""

    pod: Json
    until: float
    command: str


@dataclass(kw_only=True)
class _Successor:
    """A pod that was created in the place of one that a controller evicted. `at`: when; `command`: the NodeClaim."""

    pod: Json
    at: float
    command: str


class SuccessorInvariants:
    """`violated(invariant, what)` is called for each violation. `time`: the loop's."""

    def __init__(self, snapshot: Snapshot, violated: Violated, *, time: Callable[[], float]) -> None:
        self._snapshot = snapshot
        self._violated = violated
        self._time = time
        # Pods that have not ended, those of DaemonSets too, and those that were bound last.
        self._pods: dict[str, Json] = {}
        self._bound: deque[tuple[float, Json]] = deque()
        # The machines that a voluntary command ends, by Node, and the pods evicted from them, by owner.
        self._commands: dict[str, str] = {}
        self._evicted: dict[str, list[_Evicted]] = {}
        self._successors: dict[str, _Successor] = {}
        self._disturbed_at = -math.inf
        self._checked_at = -math.inf

    # what changes

    def claim_deleted(self, claim: Json) -> None:
        """A controller begins to delete this NodeClaim; call it before the deletion is in the snapshot."""
        uid = claim["metadata"]["uid"]
        snapshot, now = self._snapshot, self._time()
        # `spec.replicas` was lowered by a user, who wants fewer places.
        forced = snapshot.is_requested(uid) or is_expired(claim) or snapshot.is_surplus(uid)
        if not snapshot.healthy(uid) or forced or now - self._disturbed_at < CACHE_SECONDS:
            return
        names = {name for name, node in snapshot.nodes.items() if snapshot.claim_of_node(node) == uid}
        # The controller has not seen the last pods when it decided.
        while self._bound and now - self._bound[0][0] >= CACHE_SECONDS:
            self._bound.popleft()
        moving = [*self._on(names), *self._moving()]
        if all(self._leaves_room(pod, moving, {*names, *self._commands}) for _, pod in self._bound):
            self._commands |= dict.fromkeys(names, claim["metadata"]["name"])

    def node_changed(self, node: Json, before: Json | None, *, gone: bool) -> None:
        """A Node was created, changed or deleted: one that others take away is a place no longer."""
        name = node["metadata"]["name"]
        if name not in self._commands and (gone or (before is not None and _is_less(node, before))):
            self._disturbed()
        if gone:
            self._commands.pop(name, None)

    def pod_changed(self, pod: Json, before: Json | None, *, gone: bool, controller: bool) -> None:
        """A pod was created, bound, changed or deleted; `controller`: by a controller's request."""
        uid, node = pod["metadata"]["uid"], node_of(pod)
        if controller and node in self._commands and _leaves(pod, before, gone=gone):
            self._leave(pod, gone=gone)
        if gone or has_ended(pod) or deleting(pod):
            self._successors.pop(uid, None)
        if gone or has_ended(pod):
            self._pods.pop(uid, None)
            return
        self._pods[uid] = pod
        if deleting(pod):
            return
        if before is None:
            self._created(pod)
        if node and uid in self._successors:
            del self._successors[uid]
        elif node and (before is None or not node_of(before)):
            self._bound.append((self._time(), pod))
            if not self._leaves_room(pod, [*self._moving()], self._commands):
                self._disturbed()

    def check(self) -> None:
        """Report the pods that were not bound in time."""
        now = self._time()
        if now - self._checked_at < CHECK_SECONDS:
            return
        self._checked_at = now
        for uid, one in list(self._successors.items()):
            if now - one.at > RESTART_SECONDS:
                del self._successors[uid]
                name = one.pod["metadata"]["name"]
                self._violated(
                    "I19", f"pod {name} is pending for {now - one.at:.0f} s, because claim {one.command} was deleted"
                )

    # pods that move

    def _leave(self, pod: Json, *, gone: bool) -> None:
        """A controller evicts this pod of a command."""
        if not (owner := _owner(pod)) or is_of_daemon_set(pod):
            return
        grace = pod["metadata"].get("deletionGracePeriodSeconds") or 0.0
        waits = not gone and owner["kind"] not in _EAGER
        until = self._time() + RECREATED_SECONDS + (grace if waits else 0.0)
        one = _Evicted(pod=pod, until=until, command=self._commands[node_of(pod)])
        self._evicted.setdefault(owner["uid"], []).append(one)

    def _created(self, pod: Json) -> None:
        """A pod may be in the place of one that was evicted; one of another template needs another place."""
        now, owner = self._time(), (_owner(pod) or {}).get("uid", "")
        left = [one for one in self._evicted.pop(owner, ()) if now <= one.until]
        found = next((one for one in left if _shape(one.pod) == _shape(pod)), None)
        if left := [one for one in left if one is not found]:
            self._evicted[owner] = left
        if found is not None and not node_of(pod) and not pod["spec"].get("schedulingGates"):
            self._successors[pod["metadata"]["uid"]] = _Successor(pod=pod, at=now, command=found.command)

    def _on(self, nodes: Iterable[str]) -> Iterator[Json]:
        """The pods that are evicted when these Nodes are removed."""
        found = (pod for pod in self._pods.values() if node_of(pod) in nodes and not deleting(pod))
        return (pod for pod in found if not is_of_daemon_set(pod))

    def _moving(self) -> Iterator[Json]:
        """The pods that the commands under way have not yet moved."""
        yield from self._on(self._commands) if self._commands else ()
        yield from (one.pod for found in self._evicted.values() for one in found if self._time() <= one.until)
        yield from (one.pod for one in self._successors.values())

    def _leaves_room(self, pod: Json, moving: Sequence[Json], leaving: Iterable[str]) -> bool:
        """Whether the Node that the pod was bound to still has room for all that move. `leaving`: Nodes of commands."""
        node = self._snapshot.nodes.get(node_of(pod))
        if not moving or node is None:
            return not moving
        if node["metadata"]["name"] in leaving:
            return False  # it has no place elsewhere that a controller has planned
        (info,) = node_infos([node], self._pods.values())
        room = {name: amount for name, amount in info.allocatable.items() if amount}
        # Before it is initialized, a Node does not show all that it will have.
        complete = labels_of(node).get(labels.INITIALIZED) == "true" or not self._snapshot.claim_of_node(node)
        possible = [one for one in moving if _fits(pod_requests(one["spec"]), room, complete=complete)]
        if not possible or any(_is_relative(one) for one in (pod, *possible)):
            return not possible
        for one in possible:
            info.add(one)
        needed = {**info.requested, "pods": Decimal(len(info.pods))}
        return all(needed.get(name, 0) <= amount for name, amount in room.items())

    def _disturbed(self) -> None:
        """Places are lost, or may be, by something else than the commands of now."""
        self._disturbed_at = self._time()
        for known in (self._commands, self._evicted, self._successors):
            known.clear()


def _is_less(node: Json, before: Json) -> bool:
    """Whether a Ready Node may take fewer pods than before; a controller's own mark of a disruption does not count."""
    if condition(before, "Ready") != "True":
        return False
    room, was = (amounts((one.get("status") or {}).get("allocatable")) for one in (node, before))
    return (
        condition(node, "Ready") != "True"
        or _cordoned(node) > _cordoned(before)
        or deleting(node) > deleting(before)
        or bool(_taints(node) - _taints(before))
        or any(room.get(name, 0) < amount for name, amount in was.items())
        or any(labels_of(node).get(key) != value for key, value in labels_of(before).items())
    )


def _taints(node: Json) -> set[tuple[str, str, str]]:
    found = (node.get("spec") or {}).get("taints") or ()
    keeping = (one for one in found if one["effect"] != "PreferNoSchedule" and one["key"] != labels.DISRUPTED_TAINT)
    return {(one["key"], one.get("value", ""), one["effect"]) for one in keeping}


def _cordoned(node: Json) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def _leaves(pod: Json, before: Json | None, *, gone: bool) -> bool:
    """Whether the pod begins to leave its Node."""
    return before is not None and not deleting(before) and not has_ended(before) and (gone or deleting(pod))


def _owner(pod: Json) -> Json | None:
    return next((one for one in pod["metadata"].get("ownerReferences") or () if one.get("controller")), None)


def _fits(wanted: Amounts, room: Amounts, *, complete: bool) -> bool:
    """Whether an empty Node takes a pod. `complete`: it has nothing that it does not show."""
    return all(amount <= room[name] if name in room else not complete for name, amount in wanted.items())


def _is_relative(pod: Json) -> bool:
    return any(pod["spec"].get(one) for one in _RELATIVE) or bool(_volumes(pod) or [*host_ports(pod)])


def _shape(pod: Json) -> tuple[object, ...]:
    """What of the template decides where the pod can run."""
    spec = pod["spec"]
    return pod_requests(spec), _volumes(pod), [*host_ports(pod)], *(spec.get(one) or None for one in _SHAPE)


def _volumes(pod: Json) -> list[Json]:
    """Those that may exist in one zone only; others have names of their own pod."""
    found = pod["spec"].get("volumes") or ()
    return [one for one in found if "persistentVolumeClaim" in one or "ephemeral" in one]
