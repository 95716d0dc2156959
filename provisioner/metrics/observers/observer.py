"""All observers of one process, guarded: an observer that raises is logged and counted, and its caller continues."""

import platform
from collections.abc import Callable, Iterable, Sequence

from cloudprovider.cloud import Cloud
from cloudprovider.interface import Offering
from cloudprovider.inventory import Inventory
from controllers.model.facts import Facts
from controllers.model.results import ReadWorkloads, Result
from controllers.model.steps import Read, Write
from controllers.node.health.admission_errors import AdmissionError, admission_errors
from controllers.provisioning.instances import InstanceTypes
from controllers.state.indexes import Indexes
from provisioner.api.causes import Cause, RemovalBlocker
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.metrics.definitions import karpenter, own
from provisioner.metrics.definitions.labels import OTHER
from provisioner.runtime.clock import Clock
from provisioner.runtime.metrics import Metrics
from provisioner.version import own_commit, own_version

from . import claims, machines
from .admission_errors import AdmissionErrorCounter
from .collector import GaugeCollector
from .guard import guarded
from .label_values import LabelValues
from .operations import Operations
from .step_counters import StepCounters
from .transitions import Transitions

ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class Observer:
    """`leading()`: whether this process is the leader; only the leader counts changes.

    `offerings_of`: the offerings that a claim allows, in order of preference. `types()`: with their prices; None while
    they are not known.
    """

    def __init__(
        self,
        metrics: Metrics,
        *,
        indexes: Indexes,
        nodes: Callable[[], Iterable[Node]],
        inventory: Inventory,
        offerings_of: Callable[[NodeClaim], Sequence[Offering]],
        cloud: Cloud,
        clock: Clock,
        leading: Callable[[], bool],
        types: Callable[[], InstanceTypes | None],
    ) -> None:
        self.errors = metrics.counter(own.OBSERVATION_ERRORS)
        label_values = LabelValues(cloud)
        self._transitions = Transitions(metrics, label_values, clock, leading)
        self._operations = Operations(metrics, inventory, clock)
        self._rejected = AdmissionErrorCounter(metrics)
        self._step_counters = StepCounters(metrics, label_values, self._operations)
        claim_gauges = claims.ClaimGauges(
            indexes.claims, label_values, clock, leading, pool_name=indexes.key_of, offerings_of=offerings_of
        )
        machine_gauges = machines.MachineGauges(
            indexes=indexes,
            nodes=nodes,
            inventory=inventory,
            label_values=label_values,
            leading=leading,
            types=types,
            cloud=cloud,
        )
        metrics.registry.register(GaugeCollector(claims.FAMILIES, claim_gauges.samples, self.errors))
        metrics.registry.register(GaugeCollector(machines.FAMILIES, machine_gauges.samples, self.errors))
        architecture = ARCHITECTURES.get(platform.machine().lower(), OTHER)
        build = (own_version(), f"python{platform.python_version()}", architecture, own_commit())
        metrics.gauge(karpenter.BUILD_INFO).labels(*build).set(1)

    def claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        """A NodeClaim was added, updated or deleted."""
        with guarded(self.errors):
            self._transitions.claim_changed(old, new)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """A Node was added, updated or deleted."""
        with guarded(self.errors):
            self._transitions.node_changed(old, new)

    def pool_changed(self, key: str) -> None:
        """The inventory has another state of an agent pool."""
        with guarded(self.errors):
            self._operations.pool_changed(key)

    def performed(self, facts: Facts, step: Write | Read, result: Result) -> None:
        """A step was performed with this result."""
        with guarded(self.errors):
            self._step_counters.performed(facts, step, result)
            if isinstance(result, ReadWorkloads):
                self._rejected.seen(admission_errors(result.workloads.pods))

    def rejected(self, errors: Iterable[AdmissionError]) -> None:
        """The kubelet rejected these pods."""
        with guarded(self.errors):
            self._rejected.seen(errors)

    def waits(self, key: str, blocked_by: RemovalBlocker | None) -> None:
        """The key waits; `blocked_by` is what an inferred removal waits for, other than time."""
        with guarded(self.errors):
            self._step_counters.waits(key, blocked_by)

    def disrupted(self, claim: NodeClaim, cause: Cause) -> None:
        """A NodeClaim of a NodePool was deleted by a decision, not by inference."""
        with guarded(self.errors):
            self._step_counters.disrupted(claim, cause)

    def forgot(self, key: str) -> None:
        """All objects of this key are deleted."""
        with guarded(self.errors):
            self._step_counters.forgot(key)
