"""What a scrape reads of removals: numbers that are true at that moment, counted by nobody.

Each gauge asks whoever knows when it is scraped, on the program's own loop.

Source: docs/references/monitoring.md#names.
"""

import asyncio

from controllers.state.cluster import FleetView
from controllers.state.unhealthy_nodes import Infirmary
from provisioner.metrics.definitions import own
from provisioner.runtime.clock import Clock
from provisioner.runtime.metrics import Metrics


def of_removals(metrics: Metrics, fleet: FleetView, infirmary: Infirmary, clock: Clock) -> None:
    """What is suspected, and what is held back."""
    suspected = metrics.gauge(own.SUSPECTED)
    suspected.set_function(lambda: float(len(fleet.suspects())))
    blocked = metrics.gauge(own.REPAIRS_BLOCKED)
    blocked.set_function(lambda: float(infirmary.blocked()))
    braked = metrics.gauge(own.BRAKED)
    braked.set_function(lambda: float(fleet.braked(clock.now(), asyncio.get_running_loop().time())))
