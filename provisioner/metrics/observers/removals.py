"""Gauges of inferred removals and repairs, read at each scrape.

Source: docs/references/monitoring.md#names.
"""

import asyncio

from controllers.state.cluster import ClusterState
from controllers.state.unhealthy_nodes import UnhealthyNodes
from provisioner.metrics.definitions import own
from provisioner.runtime.clock import Clock
from provisioner.runtime.metrics import Metrics


def register_removal_metrics(
    metrics: Metrics, cluster_state: ClusterState, unhealthy_nodes: UnhealthyNodes, clock: Clock
) -> None:
    """Register gauges of the garbage collection candidates, repairs that are not made, and the circuit breaker."""
    candidates = metrics.gauge(own.REMOVAL_CANDIDATES)
    candidates.set_function(lambda: float(len(cluster_state.candidates())))
    blocked = metrics.gauge(own.REPAIRS_BLOCKED)
    blocked.set_function(lambda: float(unhealthy_nodes.blocked()))
    suspended = metrics.gauge(own.REPAIRS_SUSPENDED)
    suspended.set_function(lambda: float(unhealthy_nodes.suspended()))
    not_made = metrics.gauge(own.REPAIRS_DRY_RUN)
    not_made.set_function(lambda: float(unhealthy_nodes.not_made()))
    restricted = metrics.gauge(own.REMOVALS_RESTRICTED)
    restricted.set_function(lambda: float(cluster_state.restricted(clock.now(), asyncio.get_running_loop().time())))
