"""What a scrape reads off the running program: numbers that are true at that moment, counted by nobody.

Promise: each gauge asks whoever knows when it is scraped, on the program's own loop; label values are bounded.
Left to others: the families (`runtime.metrics`); what is counted when it happens, by whoever does it.

Source: karpenter.md §7, ecosystem.md §2.2.
"""

import asyncio

from cloudprovider.inventory import Inventory
from controllers.fleet import FleetView
from controllers.infirmary import Infirmary

from .runtime.clock import Clock
from .runtime.metrics import Metrics


def of_the_cloud(metrics: Metrics, inventory: Inventory) -> None:
    """What the inventory shows."""
    strange = metrics.gauge("gpu_provisioner_pools_in_unknown_state", "Agent pools in a state that is new to us")
    strange.set_function(lambda: float(sum(pool.unknown_state for pool in inventory.items())))


def of_removals(metrics: Metrics, fleet: FleetView, infirmary: Infirmary, clock: Clock) -> None:
    """What is suspected, and what is held back."""
    suspected = metrics.gauge("gpu_provisioner_removals_suspected", "Keys suspected of being garbage")
    suspected.set_function(lambda: float(len(fleet.suspects())))
    blocked = metrics.gauge("gpu_provisioner_repairs_blocked", "Repairs that are due and wait for others")
    blocked.set_function(lambda: float(infirmary.blocked()))
    braked = metrics.gauge("gpu_provisioner_removals_braked", "1 while too much looks like garbage to remove any")
    braked.set_function(lambda: float(fleet.braked(clock.now(), asyncio.get_running_loop().time())))
