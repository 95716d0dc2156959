"""Faults of machines and their Nodes."""

from typing import TYPE_CHECKING

from tests.swarm.plan import Event

from .base import verb

if TYPE_CHECKING:
    from tests.swarm.run import Run


@verb("node-not-ready")
async def node_not_ready(run: "Run", event: Event) -> None:
    """The kubelet of a machine does not answer while it lasts."""
    name = run.node(event)
    if name:
        run.struck(event)
        run.sim.nodes.set_ready(name, None)
        await run.lasts(event)
        if name in run.sim.nodes.machines and run.sim.store.get("nodes", name):
            run.sim.nodes.set_ready(name, True)


@verb("plugin-stops")
async def plugin_stops(run: "Run", event: Event) -> None:
    """The device plugin of a machine stops, and starts again."""
    name = run.node(event)
    if name:
        run.struck(event)
        run.sim.nodes.stop_plugin(name)
        await run.lasts(event)
        if name in run.sim.nodes.machines:
            run.sim.nodes.start_plugin(name)
