"""Answers the TerminateNodes and RebootNodes of NVSentinel, if enabled.

A deletion is requested, not inferred: the limits of repair do not apply, and the circuit breaker does.

Source: docs/references/kubernetes.md#nvsentinel, docs/references/rules.md#circuit-breaker.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Never

import structlog

from controllers.actuator.actuator import Actuator
from controllers.actuator.nvsentinel import NVSentinelActuator
from controllers.model.ownership import pool_of
from controllers.model.results import ReadClaim, answer
from controllers.model.steps import DeleteClaim, LookUpClaim
from controllers.node.health import nvsentinel as rules
from controllers.node.health.nvsentinel import Answer, Decision, Delete, NotManaged, Prove, Record, Request
from controllers.state.cluster import ClusterState
from controllers.state.indexes import Indexes
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nvsentinel import NVSentinel
from provisioner.runtime.clock import Clock
from provisioner.runtime.kube import KubeError
from provisioner.runtime.reflector import Reflector
from provisioner.runtime.resources import Resource
from provisioner.runtime.watched_objects import Watched, WatchedObject, WatchedObjects

from .claim_deletion import Deletion, delete_claim
from .removal_records import RemovalRecords

POLL_SECONDS = 10.0
# After a write that was refused: permissions and CRDs change rarely.
RETRY_SECONDS = 60.0

log = structlog.get_logger("nvsentinel")


def watched(names: NVSentinel) -> tuple[Watched, ...]:
    """The resources that are watched: TerminateNodes, then RebootNodes unless they are left to others."""
    remedy = "set the chart's value nvsentinel.enabled"
    found = (names.terminate_resource, names.reboot_resource)
    return tuple(Watched(group=names.group, version=names.version, resource=one, remedy=remedy) for one in found if one)


class NVSentinelController:
    """`current`: whether caches and the list of pools can be relied on. `disrupted(claim, cause)`: metrics."""

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
        disrupted: Callable[[NodeClaim, str], None],
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
        self._clock = clock
        self._deleted: set[str] = set()
        self._reported: set[str] = set()
        self._retry_at: dict[str, float] = {}

    async def run(self) -> Never:
        """Answer all requests again and again, until cancelled."""
        while True:
            if self._current():
                await self._pass()
            await asyncio.sleep(POLL_SECONDS)

    async def _pass(self) -> None:
        decided = [(resource, one, self._decide(one)) for resource, one in self._all()]
        uids = {one.meta.uid for _, one, _ in decided}
        self._reported &= uids
        self._retry_at = {uid: at for uid, at in self._retry_at.items() if uid in uids}
        self._deleted = {uid for uid in self._deleted if self._indexes.claim_of_uid(uid) is not None}
        claims = {one.claim.uid: one.claim for _, _, one in decided if isinstance(one, Delete)}
        machines = frozenset((self._indexes.key_of(one), uid) for uid, one in claims.items())
        limited = bool(machines) and self._cluster_state.restricts(machines, self._clock.now(), _now())
        for resource, request, wanted in decided:
            decision = wanted
            if limited and isinstance(wanted, Delete) and wanted.claim.uid not in self._deleted:
                decision = rules.restricted(wanted.claim, len(machines))
            if decision is None or _now() < self._retry_at.get(request.meta.uid, 0.0):
                continue
            try:
                await self._act(resource, request, decision)
            except KubeError as error:
                if error.conflict or error.not_found:
                    continue  # the cache will show the change
                self._retry_at[request.meta.uid] = _now() + RETRY_SECONDS
                log.warning("failed to answer a request of NVSentinel", **_fields(request), error=str(error))

    def _all(self) -> Iterator[tuple[Resource[WatchedObject], Request]]:
        for one in watched(self._names):
            resource = self._objects.resource(one)
            if resource is None or self._objects.problem(one):
                continue
            reboots = one.resource != self._names.terminate_resource
            complete = self._names.reboot_condition_type if reboots else self._names.terminate_condition_type
            found = self._objects.items(one)
            for seen in sorted(found, key=lambda item: (item.metadata.creation_timestamp, item.metadata.name)):
                yield resource, _request(resource.kind, seen, complete=complete, reboots=reboots)

    def _decide(self, request: Request) -> Decision:
        name = request.node_name
        node, about = self._nodes.get(name), rules.recorded(request)
        claims = self._indexes.claims_of(pool_of(node)) if node is not None else self._indexes.claims()
        claim = rules.claim_of(name, node, claims)
        known = self._indexes.claim_of_uid(about.uid) if about is not None else None
        return rules.decide(request, node, claim, known)

    async def _act(self, resource: Resource[WatchedObject], request: Request, decision: Decision) -> None:
        match decision:
            case NotManaged(event=event):
                if request.meta.uid not in self._reported and self._requests.record_event(resource, request, event):
                    self._reported.add(request.meta.uid)
            case Answer():
                await self._answer(resource, request, decision)
            case Record(claim=claim):
                await self._requests.write(resource, request, rules.RECORD, _record(claim))
            case Delete(claim=claim, recorded=recorded):
                known = recorded or await self._requests.write(resource, request, rules.RECORD, _record(claim))
                if known and claim.uid not in self._deleted:
                    await self._delete(request, claim)
            case Prove(name=name, uid=uid):
                found = answer(await self._actuator.read(LookUpClaim(name=name)), ReadClaim).claim
                if found is None or found.uid != uid:
                    await self._answer(resource, request, rules.gone(decision))

    async def _answer(self, resource: Resource[WatchedObject], request: Request, found: Answer) -> None:
        if await self._requests.write(resource, request, request.complete, found):
            fields = {"status": found.status, "reason": found.reason, "message": found.message}
            log.info("answered a request of NVSentinel", **_fields(request), **fields)

    async def _delete(self, request: Request, claim: NodeClaim) -> None:
        key, event = self._indexes.key_of(claim), rules.deletion_event(request)
        failed = await self._removal_records.record_removal(key, claim.uid, "terminate-node")
        if failed is not None:
            raise failed.error
        step = DeleteClaim(claim=claim, cause="terminate-node", event=event)
        if await delete_claim(self._actuator, step) is Deletion.DELETED:
            self._deleted.add(claim.uid)
            self._disrupted(claim, "terminate-node")


def _request(kind: str, seen: WatchedObject, *, complete: str, reboots: bool) -> Request:
    node = _mapping(seen.spec).get("nodeName")
    conditions = _mapping(seen.status).get("conditions")
    return Request(
        kind=kind,
        meta=seen.metadata,
        node_name=node if isinstance(node, str) else "",
        conditions=tuple(one for one in conditions if isinstance(one, Mapping)) if isinstance(conditions, list) else (),
        complete=complete,
        reboots=reboots,
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _record(claim: NodeClaim) -> Answer:
    return Answer(status="True", reason="DeletionRequested", message=rules.record(claim))


def _fields(request: Request) -> dict[str, Any]:
    return {request.kind: {"name": request.meta.name}, "Node": {"name": request.node_name}}


def _now() -> float:
    return asyncio.get_running_loop().time()
