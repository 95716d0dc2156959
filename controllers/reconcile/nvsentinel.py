"""Answers the TerminateNodes and RebootNodes of NVSentinel, if enabled.

A deletion is requested, not inferred: the limits of repair do not apply, and the circuit breaker does.

Source: docs/references/kubernetes.md#nvsentinel, docs/references/rules.md#circuit-breaker.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import structlog

from controllers.actuator.actuator import Actuator
from controllers.actuator.nvsentinel import NVSentinelActuator
from controllers.gate.gate import Evidence
from controllers.model.ownership import managed
from controllers.node.health import nvsentinel as rules
from controllers.node.health.nvsentinel import Answer, Decision, Delete, NotManaged, Prove, Record, Request
from controllers.state.cluster import ClusterState
from controllers.state.indexes import Indexes
from provisioner.api.causes import Cause
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nvsentinel import NVSentinel
from provisioner.metrics.definitions.labels import Queue
from provisioner.runtime.clock import Clock
from provisioner.runtime.isolation import Isolation
from provisioner.runtime.kube import KubeError
from provisioner.runtime.reflector import Reflector
from provisioner.runtime.resources import Resource
from provisioner.runtime.watched_objects import Fields, Watched, WatchedObject, WatchedObjects

from .claim_deletion import Deletion, delete_claim
from .removal_records import RemovalRecords

POLL_SECONDS = 10.0
# After a write that was refused: permissions and CRDs change rarely.
RETRY_SECONDS = 60.0

log = structlog.get_logger("nvsentinel")


# The conditions are written back, so all of them are kept.
FIELDS: Fields = frozenset({("spec", "nodeName"), ("status", "conditions")})


def watched(names: NVSentinel) -> tuple[Watched, ...]:
    """The resources that are watched: TerminateNodes, then RebootNodes unless they are left to others."""
    remedy = "set the chart's value nvsentinel.enabled"
    found = (names.terminate_resource, names.reboot_resource)
    return tuple(Watched(group=names.group, version=names.version, resource=one, remedy=remedy) for one in found if one)


class NVSentinelController:
    """`current`: whether caches and the list of pools can be relied on. `disrupted(claim, cause)`: metrics."""

    name: ClassVar[Queue] = "nvsentinel"

    def __init__(
        self,
        names: NVSentinel,
        objects: WatchedObjects,
        indexes: Indexes,
        nodes: Reflector[Node],
        *,
        current: Callable[[], bool],
        cluster_state: ClusterState,
        removal_records: RemovalRecords,
        actuator: Actuator,
        requests: NVSentinelActuator,
        disrupted: Callable[[NodeClaim, Cause], None],
        isolation: Isolation,
        clock: Clock,
    ) -> None:
        self._names = names
        self._objects = objects
        self._indexes = indexes
        self._nodes = nodes
        self._current = current
        self._cluster_state = cluster_state
        self._removal_records = removal_records
        self._actuator = actuator
        self._requests = requests
        self._disrupted = disrupted
        self._isolation = isolation
        self._clock = clock
        self._deleted: set[str] = set()
        self._retry_at: dict[str, float] = {}

    def add_event_handlers(self) -> None:
        """Each pass reads all requests."""

    async def reconcile(self, _: str) -> float:
        """Answer all requests; returns the seconds until the next pass. Raises LeaseExpires."""
        if self._current():
            await self._pass()
        return POLL_SECONDS

    async def _pass(self) -> None:
        decided = list[tuple[Resource[WatchedObject], Request, Decision]]()
        for resource, one in self._all():
            with self._isolation.of(resource.kind, one.meta.name, "the maintenance of Nodes"):
                decided.append((resource, one, self._decide(one)))
        uids = {one.meta.uid for _, one, _ in decided}
        self._retry_at = {uid: at for uid, at in self._retry_at.items() if uid in uids}
        self._deleted = {uid for uid in self._deleted if self._indexes.claim_of_uid(uid) is not None}
        permitted = set[tuple[str, str]]()
        for resource, request, wanted in decided:
            # One that was refused uses no part of the limit until it is tried again.
            if _now() < self._retry_at.get(request.meta.uid, 0.0):
                continue
            decision = wanted
            if isinstance(wanted, Delete) and not self._permits(wanted.claim, permitted):
                decision = rules.waiting(request, wanted.claim)
            if decision is None:
                continue
            try:
                with self._isolation.of(resource.kind, request.meta.name, "the maintenance of Nodes"):
                    await self._act(resource, request, decision)
            except KubeError as error:
                if error.conflict or error.not_found:
                    continue  # the cache will show the change
                self._retry_at[request.meta.uid] = _now() + RETRY_SECONDS
                log.warning("failed to answer a request of NVSentinel", **_fields(request), error=str(error))

    def _permits(self, claim: NodeClaim, permitted: set[tuple[str, str]]) -> bool:
        """Whether the circuit breaker permits this deletion besides those of this pass, to which it is added then."""
        machine = (self._indexes.key_of(claim), claim.uid)
        if claim.uid in self._deleted or machine in permitted:
            return True
        if self._cluster_state.restricts(permitted | {machine}, self._clock.now(), _now()):
            return False
        permitted.add(machine)
        return True

    def _all(self) -> Iterator[tuple[Resource[WatchedObject], Request]]:
        for one in watched(self._names):
            resource = self._objects.resource(one)
            if resource is None or self._objects.problem(one):
                continue
            reboots = one.resource != self._names.terminate_resource
            complete = self._names.reboot_condition_type if reboots else self._names.terminate_condition_type
            found = self._objects.items(one)
            for seen in sorted(found, key=lambda item: (item.metadata.creation_timestamp, item.metadata.name)):
                if seen.metadata.unreadable:
                    continue  # what it lacks would be lost by a write of its conditions
                yield resource, _request(resource.kind, seen, complete=complete, reboots=reboots)

    def _decide(self, request: Request) -> Decision:
        name = request.node_name
        node, about = self._nodes.get(name), rules.recorded(request)
        claims = self._indexes.claims_of(self._indexes.pool_of(node)) if node is not None else self._indexes.claims()
        claim = rules.claim_of(name, node, claims)
        known = self._indexes.claim_of_uid(about.uid) if about is not None else None
        return rules.decide(request, node, claim, known, self._clock.now())

    async def _act(self, resource: Resource[WatchedObject], request: Request, decision: Decision) -> None:
        match decision:
            case NotManaged(event=event):
                self._requests.record_event(resource, request, event)
            case Answer():
                await self._answer(resource, request, decision)
            case Record(claim=claim):
                await self._requests.write(resource, request, rules.RECORD, _record(claim))
            case Delete(claim=claim, recorded=recorded):
                if not recorded:
                    await self._requests.write(resource, request, rules.RECORD, _record(claim))
                if claim.uid not in self._deleted:
                    await self._delete(request, claim)
            case Prove(name=name, uid=uid):
                found = await self._actuator.reads.claim(name)
                if found is None or found.uid != uid:
                    await self._answer(resource, request, rules.gone(decision))

    async def _answer(self, resource: Resource[WatchedObject], request: Request, found: Answer) -> None:
        await self._requests.write(resource, request, request.complete, found)
        fields = {"status": found.status, "reason": found.reason, "message": found.message}
        log.info("answered a request of NVSentinel", **_fields(request), **fields)

    async def _delete(self, request: Request, claim: NodeClaim) -> None:
        key = self._indexes.key_of(claim)
        await self._removal_records.record_removal(key, claim.uid, "terminate-node")
        evidence = Evidence(cause="terminate-node", uid=claim.uid, ours=managed(claim), seen=True, works=False)
        deletion = await delete_claim(self._actuator, claim, evidence, rules.deletion_message(request))
        if deletion is Deletion.REFUSED:
            self._removal_records.refused(key, claim.uid)
            self._retry_at[request.meta.uid] = _now() + RETRY_SECONDS
        if deletion is Deletion.DELETED:
            self._deleted.add(claim.uid)
            self._disrupted(claim, "terminate-node")


def _request(kind: str, seen: WatchedObject, *, complete: str, reboots: bool) -> Request:
    node = seen.member("spec").get("nodeName")
    conditions = seen.member("status").get("conditions")
    return Request(
        kind=kind,
        meta=seen.metadata,
        node_name=node if isinstance(node, str) else "",
        conditions=tuple(one for one in conditions if isinstance(one, Mapping)) if isinstance(conditions, list) else (),
        complete=complete,
        reboots=reboots,
    )


def _record(claim: NodeClaim) -> Answer:
    return Answer(status="True", reason="DeletionRequested", message=rules.record(claim))


def _fields(request: Request) -> dict[str, Any]:
    return {request.kind: {"name": request.meta.name}, "Node": {"name": request.node_name}}


def _now() -> float:
    return asyncio.get_running_loop().time()
