"""An event loop on virtual time, and everything else that one run must hold still to be repeatable.

`run()` gives the same course of events for the same seed, in any process and under any hash seed; hours pass
in milliseconds, because time jumps to the next timer as soon as nothing is ready. Whatever cannot be repeated (threads,
sockets, signals) fails loudly. A program that waits for nothing (`DeadlockError`), never waits (`LivelockError`) or
waits beyond the horizon (`HorizonError`) is told so, with the place where each of its tasks stands. Errors that nobody
looked at (invariant I8) end the run.

Facts, measured on CPython 3.11 and aiohttp 3.14: `asyncio.wait`, TaskGroup and `all_tasks` keep sets of tasks, whose
order is that of their hashes, by default their addresses; aiohttp ages idle connections by `time.monotonic`, the Azure
SDK its tokens by `time.time`, and takes request ids from `uuid.uuid1` and jitter from `random`; aiohttp rounds timeouts
of more than 5 s up to the loop's next whole second; its server's keep-alive timer (3,630 s by default) hides a deadlock
until it fires, so give a run a low horizon.
Source: docs/references/simulator.md#virtual-time.
"""

import asyncio
import random  # noqa: TID251 - the SDKs draw from the module, so it is the module that is seeded
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import PurePath
from types import CodeType
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import aiohttp.connector

T = TypeVar("T")

HORIZON_SECONDS = 7 * 86_400.0
SPINS = 100_000
TASKS_SHOWN = 25


class SimError(RuntimeError):
    """The simulated program did what no sound program does."""


class DeadlockError(SimError):
    """Nothing is ready and no timer is set: nothing can ever happen again."""


class LivelockError(SimError):
    """The program has been busy for `SPINS` rounds of the loop without letting time pass."""


class HorizonError(SimError):
    """The next timer lies beyond the time this run was given."""


class SilentFailures(ExceptionGroup[Exception]):
    """Errors that the program produced and nobody looked at (I8)."""


class SimTask(asyncio.Task[Any]):
    """A task whose hash is its birth number, so that sets of tasks have one order."""

    def __init__(self, coro: Coroutine[Any, Any, Any], *, loop: "SimLoop", **kwargs: Any) -> None:
        self._birth = loop.register(self)
        super().__init__(coro, loop=loop, **kwargs)

    def __hash__(self) -> int:
        return self._birth


class SimLoop(asyncio.BaseEventLoop):
    """Time starts at 0 (a large start value with a fine resolution would spin) and moves only from timer to timer.

    `failures` holds what reached the exception handler; `wakeups` counts the times the clock moved.
    """

    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, *, horizon_seconds: float = HORIZON_SECONDS) -> None:
        super().__init__()
        self.horizon_seconds = horizon_seconds
        self.wakeups = 0
        self.failures: list[Exception] = []
        self._now = 0.0
        self._spins = 0
        self._births = 0
        self._tasks: WeakValueDictionary[int, SimTask] = WeakValueDictionary()
        self._thread = threading.get_ident()
        self._clock_resolution = 1e-6
        self._selector = self  # BaseEventLoop._run_once() waits by calling self._selector.select()
        self.set_task_factory(new_task)
        self.set_exception_handler(lambda _, context: self._note_failure(context))

    def time(self) -> float:
        return self._now

    def register(self, task: SimTask) -> int:
        """The birth number of a new task."""
        self._births += 1
        self._tasks[self._births] = task
        return self._births

    def select(self, timeout: float | None) -> tuple[()]:
        """Stands where the operating system's wait would be: lets time jump instead."""
        self._spins += 1
        if timeout is None:
            raise DeadlockError(
                f"deadlock at {self._now:.3f} s: nothing is ready and no timer is set\n{self.describe_tasks()}"
            )
        if self._spins > SPINS:
            self._spins = 0  # the end of the run needs some rounds to clean up
            raise LivelockError(f"livelock at {self._now:.3f} s: {SPINS} rounds in no time\n{self.describe_tasks()}")
        if timeout > 0:
            due = self._scheduled[0].when()  # not now + timeout, which drifts and is capped at a day
            if due > self.horizon_seconds:
                raise HorizonError(
                    f"nothing to do at {self._now:.3f} s before the horizon of {self.horizon_seconds:g} s; "
                    f"next timer at {due:.3f} s: {self._scheduled[0]!r}\n{self.describe_tasks()}"
                )
            self._now, self._spins = max(self._now, due), 0
            self.wakeups += 1
        return ()

    # The base's type variables say nothing about a method that only raises.
    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Refused: threads have no repeatable order. The usual cause is a session with `trust_env=True`."""
        raise SimError(f"a thread was asked for, to run {func!r}")

    def unseen_failures(self) -> list[Exception]:
        """What reached the exception handler, and what ended a task that nobody awaited."""
        for birth in sorted(self._tasks.keys()):
            task = self._tasks.get(birth)
            # Only the task itself knows whether its exception was looked at; its finalizer would say so too late.
            if task is not None and task.done() and not task.cancelled() and task._log_traceback:  # noqa: SLF001
                self._note_failure({"message": f"{task.get_name()} failed unseen", "exception": task.exception()})
        return self.failures

    def describe_tasks(self) -> str:
        """One line for each unfinished task: its name and the innermost place where it waits."""
        tasks = [task for _, task in sorted(self._tasks.items()) if not task.done()]
        lines = [f"  {task.get_name()} waits at {_where(task.get_coro())}" for task in tasks[:TASKS_SHOWN]]
        more = len(tasks) - TASKS_SHOWN
        return "\n".join([*lines, f"  and {more} more"] if more > 0 else lines)

    def _note_failure(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        message = str(context.get("message", "unknown"))
        if isinstance(error, Exception):
            error.add_note(message)
            self.failures.append(error)
        else:
            self.failures.append(SimError(f"{message}: {error!r}" if error else f"{message}: {context!r}"))

    def _process_events(self, event_list: Any) -> None:
        """There are none: no sockets."""

    def _write_to_self(self) -> None:
        """Wakes a waiting selector; ours never waits. `call_soon_threadsafe` of the own thread ends here too."""
        if threading.get_ident() != self._thread:
            raise SimError("another thread called into the simulated loop")


def new_task(loop: asyncio.AbstractEventLoop, coro: Any, **kwargs: Any) -> SimTask:
    """The loop's task factory; a harness that tracks tasks wraps it."""
    assert isinstance(loop, SimLoop)  # noqa: S101 - only a SimLoop is given this factory
    return SimTask(coro, loop=loop, **kwargs)


def _where(awaited: Any) -> str:
    """The innermost frame of a chain of awaits."""
    place = "its start"
    while awaited is not None:
        code: CodeType | None = getattr(awaited, "cr_code", None) or getattr(awaited, "ag_code", None)
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None)
        if code is not None and frame is not None:
            place = f"{code.co_qualname} ({PurePath(code.co_filename).name}:{frame.f_lineno})"
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)
    return place


class VirtualClock:
    """Wall time of a simulated world: `epoch` (aware, UTC) plus the loop's time.

    `offset` may be changed while it runs: a clock that somebody has set wrongly.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, epoch: datetime) -> None:
        self.epoch = epoch
        self.offset = timedelta()
        self._loop = loop

    def now(self) -> datetime:
        return self.epoch + self.offset + timedelta(seconds=self._loop.time())


@contextmanager
def repeatable(loop: asyncio.AbstractEventLoop, *, seed: int, epoch: datetime) -> Iterator[None]:
    """Everything outside the loop that the SDKs take time or chance from, replaced for a while and then restored."""
    ids = random.Random(seed)  # noqa: S311 - repeatable on purpose
    start = epoch.timestamp()
    replaced: list[tuple[Any, str, Callable[[], object]]] = [
        (aiohttp.connector, "monotonic", loop.time),
        (time, "time", lambda: start + loop.time()),
        (uuid, "uuid1", lambda *_: uuid.UUID(int=ids.getrandbits(128), version=1)),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    chance = random.getstate()
    random.seed(seed)
    for module, name, value in replaced:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
        random.setstate(chance)


def run(
    main: Callable[[], Coroutine[Any, Any, T]], *, seed: int, epoch: datetime, horizon_seconds: float = HORIZON_SECONDS
) -> T:
    """Run `main()` on a fresh virtual loop until it returns; its unfinished tasks are cancelled then.

    Raises what `main` raises (with unseen failures as notes), `SilentFailures` if it returned but something failed
    unseen, and `DeadlockError`, `LivelockError` or `HorizonError`.
    """
    loop = SimLoop(horizon_seconds=horizon_seconds)
    with repeatable(loop, seed=seed, epoch=epoch):
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                result = runner.run(main())
        except BaseException as error:
            for failure in loop.unseen_failures():
                error.add_note(f"failed unseen: {failure!r}")
            raise
        if failures := loop.unseen_failures():
            raise SilentFailures("the run ended, but these errors were not looked at", failures)
    return result
