"""Records removals by inference on the Lease before they are sent, so that the next leader counts them as well.

Those of the circuit breaker's window, and the repairs of the last days.

Source: docs/references/rules.md#circuit-breaker, docs/references/rules.md#repair.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from controllers.garbagecollection import candidates
from controllers.model import recent_removals, recent_repairs
from controllers.model.facts import Facts
from controllers.model.recent_repairs import RepairStage
from controllers.model.steps import Write
from controllers.node.health.repair import repaired_stage
from controllers.state.cluster import ClusterState
from controllers.state.repair_history import RepairHistory
from controllers.state.unhealthy_nodes import repair_owner
from provisioner.api import labels
from provisioner.api.causes import Cause
from provisioner.runtime.clock import Clock
from provisioner.runtime.kube import KubeError

log = structlog.get_logger("reconciler")


class RemovalRecords:
    """`save(annotation, text)` keeps a text on the Lease. It may raise KubeError."""

    def __init__(
        self,
        *,
        cluster_state: ClusterState,
        repairs: RepairHistory,
        clock: Clock,
        save: Callable[[str, str], Awaitable[None]],
    ) -> None:
        self._cluster_state = cluster_state
        self._repairs = repairs
        self._clock = clock
        self._save = save

    async def record(self, facts: Facts, step: Write, cause: Cause) -> None:
        """Count this removal. Raises KubeError if it could not be recorded, and must not be sent."""
        if (stage := repaired_stage(facts, step)) is not None:
            await self._record_repair(facts, stage)
        await self.record_removal(facts.key, candidates.claim_uid(facts), cause)

    async def record_ended_rows(self) -> None:
        """Tell the next leader which rows of failures have ended; after an error, the next record does."""
        if not self._repairs.unsaved:
            return
        self._repairs.unsaved = False
        try:
            await self._save(labels.RECENT_REPAIRS, self._encoded_repairs())
        except KubeError as error:
            log.warning("failed to record on the Lease that a machine works again", error=str(error))

    async def record_removal(self, key: str, uid: str, cause: Cause) -> None:
        """Count the removal of this machine. Raises KubeError if it could not be recorded, and must not be sent."""
        if not self._cluster_state.removal_started(key, cause, uid, _now()):
            return
        removals = recent_removals.encode(self._cluster_state.recent_removals(self._clock.now(), _now()))
        await self._keep(labels.INFERRED_REMOVALS, removals, lambda: self._cluster_state.removal_not_sent(key, uid))

    def refused(self, key: str, uid: str) -> None:
        """The API server has refused the removal: the machine uses no part of a limit, here and for the next leader
        from the next record on.
        """
        self._cluster_state.removal_not_sent(key, uid)
        self._repairs.not_sent(uid)

    async def _record_repair(self, facts: Facts, stage: RepairStage) -> None:
        claim = facts.claim
        uid, owner = (claim.uid, repair_owner(claim)) if claim is not None else ("", "")
        created = claim.metadata.creation_timestamp if claim is not None else self._clock.now()
        lived = max(0.0, (self._clock.now() - created).total_seconds())
        if not self._repairs.started(uid, stage, owner, _now(), lived):
            return
        await self._keep(labels.RECENT_REPAIRS, self._encoded_repairs(), lambda: self._repairs.not_sent(uid))

    def _encoded_repairs(self) -> str:
        return recent_repairs.encode(self._repairs.entries(self._clock.now(), _now()))

    async def _keep(self, annotation: str, text: str, undo: Callable[[], None]) -> None:
        try:
            await self._save(annotation, text)
        except BaseException as error:
            undo()
            if isinstance(error, KubeError):
                log.warning("removal not sent: failed to record it on the Lease", error=str(error))
            raise


def _now() -> float:
    return asyncio.get_running_loop().time()
