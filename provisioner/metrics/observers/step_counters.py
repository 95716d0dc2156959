"""Counters of performed steps: inferred removals, evictions, rejections and exceeded deadlines.

Each occurrence counts once: a retried step when it succeeds, a wait when it starts. Only the leader performs steps.

Source: docs/references/karpenter.md#drain, docs/references/karpenter.md#metrics, docs/references/monitoring.md#names.
"""

from collections.abc import Collection, Iterable

from cloudprovider.errors import CloudError, Rejected, Retryable
from cloudprovider.interface import Offering
from controllers.model.facts import Facts
from controllers.model.results import Accepted, CloudFailed, Evicted, KubeFailed, ReadCause, Result, Wrote
from controllers.model.steps import (
    AskCause,
    CreateInstance,
    DeleteClaim,
    DeleteInstance,
    DeleteNode,
    DeletePods,
    EvictPods,
    PatchClaim,
    Read,
    RestartPluginPod,
    Write,
)
from provisioner.api.causes import CAUSES, Cause, RemovalBlocker
from provisioner.api.nodeclaim import NodeClaim
from provisioner.metrics.definitions import LABELS, karpenter, own
from provisioner.metrics.definitions.labels import OTHER
from provisioner.runtime.metrics import Metrics

from .failures import failure_class
from .label_values import LabelValues, capacity_label, signal_label
from .operations import Operations

FORCEFUL = "Forceful Termination"


class StepCounters:
    """Counts the results of steps."""

    def __init__(self, metrics: Metrics, label_values: LabelValues, operations: Operations) -> None:
        self._label_values = label_values
        self._operations = operations
        self._failures = metrics.counter(own.CREATE_FAILURES)
        self._deleted = metrics.counter(own.GC_DELETED)
        self._skipped = metrics.counter(own.GC_SKIPPED)
        self._overdue = metrics.counter(own.DEADLINES)
        self._disrupted = metrics.counter(karpenter.NODECLAIMS_DISRUPTED)
        self._unhealthy = metrics.counter(karpenter.NODECLAIMS_UNHEALTHY)
        self._evictions = metrics.counter(karpenter.EVICTION_REQUESTS)
        self._drained = metrics.counter(karpenter.PODS_DRAINED)
        self._repairs = metrics.counter(own.GPU_REPAIRS)
        self._waiting: dict[str, RemovalBlocker] = {}
        self._collected: dict[str, str] = {}
        # The deadlines that were counted, and whose record is refused, by key.
        self._unrecorded: dict[str, frozenset[str]] = {}
        operations.on_failure = self.failed
        # Series exist from the start, so that `increase()` sees the first event.
        for held in own.HELD_REASONS:
            self._skipped.labels(held)
        for deadline in LABELS["deadline"].values:
            self._overdue.labels(deadline)

    def performed(self, facts: Facts, step: Write | Read, result: Result) -> None:
        """A step was performed with this result."""
        match step, result:
            case CreateInstance(offering=offering), CloudFailed(error=error):
                self.failed(offering, _reason(error))
            case AskCause(instance=instance), ReadCause(failure=failure):
                self._operations.explained(instance, failure.reason if failure is not None else OTHER)
            case DeleteInstance(instance=instance, cause=cause), Accepted() if CAUSES[cause].by_inference:
                self._collect(facts.key, instance.claim_uid or instance.etag, cause)
            case DeleteNode(cause=cause), Wrote() if CAUSES[cause].by_inference:
                self._deleted.labels("node", cause).inc()
            case DeleteClaim(claim=claim, cause=cause), Wrote():
                self._deleted.labels("nodeclaim", cause).inc()
                self._repaired(facts, "replace", cause)
                self.disrupted(claim, cause)
            case RestartPluginPod(), Wrote() | Evicted():
                self._repaired(facts, "restart-plugin", "unhealthy-node")
            case PatchClaim(overdue=overdue), Wrote():
                self._passed(overdue, self._unrecorded.pop(facts.key, frozenset()))
            case PatchClaim(overdue=overdue), KubeFailed(error=error) if error.refused:
                counted = self._unrecorded.get(facts.key, frozenset())
                self._passed(overdue, counted)
                self._unrecorded[facts.key] = counted | {*overdue}
            case EvictPods() | DeletePods(), Evicted():
                self._pods_left(result, by_force=isinstance(step, DeletePods))
            case _:
                return

    def _passed(self, overdue: Iterable[str], counted: Collection[str]) -> None:
        for deadline in overdue:
            if deadline not in counted:
                self._overdue.labels(deadline).inc()

    def _repaired(self, facts: Facts, action: str, cause: Cause) -> None:
        if facts.unhealthy is not None and CAUSES[cause].condition:
            self._repairs.labels(signal_label(facts.unhealthy.policy), action).inc()

    def failed(self, offering: Offering | None, reason: str) -> None:
        """An agent pool was rejected, or its creation failed."""
        size = self._label_values.size(offering.size) if offering is not None else OTHER
        self._failures.labels(reason, size, offering.capacity_type if offering is not None else "").inc()

    def waits(self, key: str, blocked_by: RemovalBlocker | None) -> None:
        """The key waits; `blocked_by` is what an inferred removal waits for, other than time."""
        if blocked_by is None:
            self._waiting.pop(key, None)
        elif self._waiting.get(key) != blocked_by:
            self._waiting[key] = blocked_by
            self._skipped.labels(blocked_by).inc()

    def forgot(self, key: str) -> None:
        """All objects of this key are deleted."""
        self._waiting.pop(key, None)
        self._collected.pop(key, None)
        self._unrecorded.pop(key, None)

    def _collect(self, key: str, machine: str, cause: Cause) -> None:
        # A deletion that failed in Azure is requested again; it counts once.
        if self._collected.get(key) != machine:
            self._collected[key] = machine
            self._deleted.labels("pool", cause).inc()

    def disrupted(self, claim: NodeClaim, cause: Cause) -> None:
        """The controller deleted this NodeClaim."""
        nodepool = self._label_values.nodepool(claim.metadata.labels)
        capacity = capacity_label(claim.metadata.labels)
        row = CAUSES[cause]
        if row.disrupted:
            self._disrupted.labels(row.disrupted, nodepool, capacity).inc()
        if row.condition:
            self._unhealthy.labels(row.condition, nodepool, capacity, self._label_values.image(claim)).inc()

    def _pods_left(self, result: Evicted, *, by_force: bool) -> None:
        if by_force:
            self._drained.labels(FORCEFUL).inc(len(result.accepted))
            return
        self._drained.labels("").inc(len(result.accepted))
        by_code = {"200": result.accepted, "404": result.gone, "429": result.blocked, "500": result.failed}
        for code, pods in by_code.items():
            if pods:
                self._evictions.labels(code).inc(len(pods))


def _reason(error: CloudError) -> str:
    if isinstance(error, Retryable) and error.conflict:
        return "conflict"
    if isinstance(error, Rejected) and error.final:
        return "invalid_spec"
    return failure_class(error.reason)
