"""A controller process of a simulation: its own network, its own tasks, and a realistic end.

On a crash its connections are closed first (FIN: data already written arrives; RST: it is lost), then its tasks are
cancelled, so that `finally` blocks reach no server. Unlike with SIGKILL, they still run in memory.
"""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any
from weakref import WeakSet

import aiohttp

from provisioner.simulator import loop as sim_loop
from provisioner.simulator.network import MemoryConnector
from provisioner.simulator.world import World

PROCESS: contextvars.ContextVar["Process | None"] = contextvars.ContextVar("process", default=None)


@dataclass(eq=False)
class Process:
    """One incarnation of a controller: its network, its tasks, its end.

    `options` are what `start_controller` was given; `clock` is its own, and may be set wrong. A process that ends by
    itself is a failure of the run, unless the story takes note by `Sim.ended` or its error is in `restart_on`.
    """

    name: str
    world: World
    launch: "Launch"
    options: dict[str, Any]
    clock: sim_loop.VirtualClock
    rng: Random
    restart_on: tuple[type[Exception], ...] = ()
    connectors: list[MemoryConnector] = field(default_factory=list)
    tasks: WeakSet[asyncio.Task[Any]] = field(default_factory=WeakSet)
    dead: bool = False
    failure: Exception | None = None
    main: asyncio.Task[Any] | None = None

    def session(self, base_url: str | None = None, **options: Any) -> aiohttp.ClientSession:
        """A session with connections of its own, in this process's name; `launch` closes it."""
        self.connectors.append(self.world.connector(self.name, controller=True))
        return aiohttp.ClientSession(
            base_url,
            connector=self.connectors[-1],
            connector_owner=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            **options,
        )

    def crash(self, *, reset: bool) -> None:
        """Kill the process; its connections are closed first."""
        if not self.dead:
            self.dead = True
            for connector in self.connectors:
                connector.kill(reset=reset)
            self.cancel()

    def cancel(self) -> None:
        """Cancel all tasks, in the order of their creation."""
        for task in self.living():
            task.cancel()

    def living(self) -> list[asyncio.Task[Any]]:
        return sorted((task for task in self.tasks if not task.done()), key=hash)

    async def run(self) -> None:
        """Run the program, in the process's own context."""
        try:
            await self.launch(self)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - however the program ends, the harness records it
            self.failure = None if self.dead else error
        else:
            self.failure = None if self.dead else RuntimeError(f"{self.name} ended by itself")

    def may_restart(self) -> bool:
        """Whether it ended by an error after which the kubelet restarts it."""
        if isinstance(self.failure, ExceptionGroup):
            return self.failure.split(self.restart_on)[1] is None
        return isinstance(self.failure, self.restart_on)

    async def reap(self) -> None:
        """Wait until all tasks and connections are closed."""
        while living := self.living():
            await asyncio.wait(living)
        for connector in self.connectors:
            await connector.close()
            connector.kill(reset=False)


Launch = Callable[[Process], Awaitable[None]]


def track_tasks(loop: asyncio.AbstractEventLoop, coro: Any, **kwargs: Any) -> asyncio.Task[Any]:
    """A task factory that assigns each task to the process in whose context it was created."""
    task = sim_loop.new_task(loop, coro, **kwargs)
    context = kwargs.get("context")
    process = PROCESS.get() if context is None else context.get(PROCESS)
    if process is not None:
        process.tasks.add(task)
    return task
