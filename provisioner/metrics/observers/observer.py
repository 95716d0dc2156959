"""All observers of one process, and the guard around them.

What is told here can fail nobody: an observer that raises is logged and counted, and the pass, the watch or
the list that told it goes on. Nothing is decided by what is observed.
"""

import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from cloudprovider.interface import Offering
from cloudprovider.inventory import Inventory
from controllers.model.facts import Facts
from controllers.model.results import Outcome
from controllers.model.steps import Held, Read, Write
from controllers.state.indexes import Indexes
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.metrics.definitions import karpenter, own
from provisioner.metrics.definitions.labels import OTHER
from provisioner.runtime.clock import Clock
from provisioner.runtime.logs import get_logger
from provisioner.runtime.metrics import Metrics
from provisioner.version import own_commit, own_version

from . import claims, machines
from .collector import GaugeCollector
from .label_values import LabelValues
from .operations import Operations
from .step_counters import StepCounters
from .transitions import Transitions

ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}

log = get_logger("observation")


class Observer:
    """`leading()` says whether this process may act: what it sees otherwise, another one counts.

    `wanted`: what a claim may be had as, the first choice first.
    """

    def __init__(
        self,
        metrics: Metrics,
        *,
        indexes: Indexes,
        nodes: Callable[[], Iterable[Node]],
        inventory: Inventory,
        wanted: Callable[[NodeClaim], Sequence[Offering]],
        clock: Clock,
        leading: Callable[[], bool],
        prices: machines.PriceTable = (),
    ) -> None:
        self.errors = metrics.counter(own.OBSERVATION_ERRORS)
        label_values = LabelValues()
        self._transitions = Transitions(metrics, label_values, clock, leading)
        self._operations = Operations(metrics, inventory, clock)
        self._step_counters = StepCounters(metrics, label_values, self._operations)
        of_claims = claims.Claims(indexes.claims, label_values, clock, leading, pool_name=indexes.key_of, wanted=wanted)
        of_machines = machines.Machines(
            indexes=indexes, nodes=nodes, inventory=inventory, label_values=label_values, leading=leading, prices=prices
        )
        metrics.registry.register(GaugeCollector(claims.FAMILIES, of_claims.read, self.errors))
        metrics.registry.register(GaugeCollector(machines.FAMILIES, of_machines.read, self.errors))
        architecture = ARCHITECTURES.get(platform.machine().lower(), OTHER)
        about = (own_version(), f"python{platform.python_version()}", architecture, own_commit())
        metrics.gauge(karpenter.BUILD_INFO).labels(*about).set(1)

    def claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        """A claim appeared, changed or went."""
        with self._guarded():
            self._transitions.claim_changed(old, new)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """A Node appeared, changed or went."""
        with self._guarded():
            self._transitions.node_changed(old, new)

    def pool_changed(self, key: str) -> None:
        """The inventory learned something new of a pool."""
        with self._guarded():
            self._operations.pool_changed(key)

    def performed(self, facts: Facts, step: Write | Read, outcome: Outcome) -> None:
        """A step was tried, and this came of it."""
        with self._guarded():
            self._step_counters.performed(facts, step, outcome)

    def waits(self, key: str, held: Held | None) -> None:
        """Nothing is to be done now for this key."""
        with self._guarded():
            self._step_counters.waits(key, held)

    def forgot(self, key: str) -> None:
        """Nothing is left of this key."""
        with self._guarded():
            self._step_counters.forgot(key)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            self.errors.inc()
            log.exception("an observer failed")
