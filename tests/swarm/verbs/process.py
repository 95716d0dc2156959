"""Faults of the controller's process."""

from typing import TYPE_CHECKING

from tests.swarm.plan import Event

from .base import verb

if TYPE_CHECKING:
    from tests.swarm.run import Run


@verb("kill")
async def kill(run: "Run", event: Event) -> None:
    """SIGKILL, with the connections closed by FIN or RST; a successor with empty memory starts."""
    for name in [name for name, process in run.sim.controllers.items() if not process.dead]:
        run.struck(event)
        run.sim.replace_controller(name, reset=event.pick < 0.5)
