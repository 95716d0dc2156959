"""An event loop on virtual time, which makes a run repeatable.

`run()` gives the same order of events for the same seed, in any process and with any hash seed. Hours pass in
milliseconds, because time advances to the next timer as soon as no callback is ready. Threads, sockets and signals
raise errors. A program that waits forever (`DeadlockError`), never waits (`LivelockError`) or waits beyond the
horizon (`HorizonError`) fails with the position of each of its tasks. Unhandled errors (invariant I8) fail the run.

Measured on CPython 3.11 and aiohttp 3.14: `asyncio.wait`, TaskGroup and `all_tasks` keep sets of tasks, ordered by
their hashes, which default to addresses; aiohttp ages idle connections by `time.monotonic`, the Azure SDK its tokens
by `time.time`, and takes request ids from `uuid.uuid1` and jitter from `random`; aiohttp rounds timeouts of more than
5 s up to the loop's next whole second; the keep-alive timer of its server (3,630 s by default) hides a deadlock until
it fires, so runs need a low horizon.
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
    """The program has a defect that only virtual time reveals."""


class DeadlockError(SimError):
    """No callback is ready and no timer is set."""


class LivelockError(SimError):
    """The program ran `SPINS` iterations of the loop without advancing time."""


class HorizonError(SimError):
    """The next timer is beyond the horizon of the run."""


class SilentFailures(ExceptionGroup[Exception]):
    """Unhandled errors of the program (I8)."""


class SimTask(asyncio.Task[Any]):
    """A task whose hash is its creation number, so that sets of tasks have a repeatable order."""

    def __init__(self, coro: Coroutine[Any, Any, Any], *, loop: "SimLoop", **kwargs: Any) -> None:
        self._number = loop.register(self)
        super().__init__(coro, loop=loop, **kwargs)

    def __hash__(self) -> int:
        return self._number


class SimLoop(asyncio.BaseEventLoop):
    """Time starts at 0 (a large start value with a fine resolution would spin) and advances only from timer to timer.

    `failures`: errors that reached the exception handler; `wakeups`: how often time advanced.
    """

    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, *, horizon_seconds: float = HORIZON_SECONDS) -> None:
        super().__init__()
        self.horizon_seconds = horizon_seconds
        self.wakeups = 0
        self.failures: list[Exception] = []
        self._now = 0.0
        self._spins = 0
        self._numbers = 0
        self._tasks: WeakValueDictionary[int, SimTask] = WeakValueDictionary()
        self._thread = threading.get_ident()
        self._clock_resolution = 1e-6
        self._selector = self  # BaseEventLoop._run_once() waits by calling self._selector.select()
        self.set_task_factory(new_task)
        self.set_exception_handler(lambda _, context: self._note_failure(context))

    def time(self) -> float:
        return self._now

    def register(self, task: SimTask) -> int:
        """The number of a new task."""
        self._numbers += 1
        self._tasks[self._numbers] = task
        return self._numbers

    def select(self, timeout: float | None) -> tuple[()]:
        """Advances time instead of waiting for the operating system."""
        self._spins += 1
        if timeout is None:
            raise DeadlockError(
                f"deadlock at {self._now:.3f} s: no callback is ready and no timer is set\n{self.describe_tasks()}"
            )
        if self._spins > SPINS:
            self._spins = 0  # the cleanup after the error needs some iterations
            raise LivelockError(
                f"livelock at {self._now:.3f} s: {SPINS} iterations at one time\n{self.describe_tasks()}"
            )
        if timeout > 0:
            due = self._scheduled[0].when()  # not now + timeout, which drifts and is capped at a day
            if due > self.horizon_seconds:
                raise HorizonError(
                    f"idle at {self._now:.3f} s until after the horizon of {self.horizon_seconds:g} s; "
                    f"next timer at {due:.3f} s: {self._scheduled[0]!r}\n{self.describe_tasks()}"
                )
            self._now, self._spins = max(self._now, due), 0
            self.wakeups += 1
        return ()

    # The type variables of the base class do not apply to a method that only raises.
    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Not supported: threads have no repeatable order. The usual cause is a session with `trust_env=True`."""
        raise SimError(f"threads are not supported on virtual time; requested for {func!r}")

    def unseen_failures(self) -> list[Exception]:
        """Errors that reached the exception handler, and errors of tasks that were never awaited."""
        for number in sorted(self._tasks.keys()):
            task = self._tasks.get(number)
            # The flag that the task's exception was not retrieved; its finalizer reports it too late.
            if task is not None and task.done() and not task.cancelled() and task._log_traceback:  # noqa: SLF001
                self._note_failure({"message": f"{task.get_name()} failed unhandled", "exception": task.exception()})
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
        """There are no sockets."""

    def _write_to_self(self) -> None:
        """Nothing to wake: `select` never waits. `call_soon_threadsafe` of the loop's own thread calls this too."""
        if threading.get_ident() != self._thread:
            raise SimError("call_soon_threadsafe was called from another thread")


def new_task(loop: asyncio.AbstractEventLoop, coro: Any, **kwargs: Any) -> SimTask:
    """The loop's task factory; a harness that tracks tasks wraps it."""
    assert isinstance(loop, SimLoop)  # noqa: S101 - only a SimLoop is given this factory
    return SimTask(coro, loop=loop, **kwargs)


def _where(awaited: Any) -> str:
    """The innermost frame of a chain of awaits."""
    place = "the start"
    while awaited is not None:
        code: CodeType | None = getattr(awaited, "cr_code", None) or getattr(awaited, "ag_code", None)
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None)
        if code is not None and frame is not None:
            place = f"{code.co_qualname} ({PurePath(code.co_filename).name}:{frame.f_lineno})"
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)
    return place


class VirtualClock:
    """Wall time of a simulated world: `epoch` (aware, UTC) plus the loop's time.

    `offset` may be changed during the run, to simulate a wrong clock.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, epoch: datetime) -> None:
        self.epoch = epoch
        self.offset = timedelta()
        self._loop = loop

    def now(self) -> datetime:
        return self.epoch + self.offset + timedelta(seconds=self._loop.time())


@contextmanager
def repeatable(loop: asyncio.AbstractEventLoop, *, seed: int, epoch: datetime) -> Iterator[None]:
    """Replaces the sources of time and randomness that the SDKs use, and restores them."""
    ids = random.Random(seed)  # noqa: S311 - repeatable on purpose
    start = epoch.timestamp()
    replaced: list[tuple[Any, str, Callable[[], object]]] = [
        (aiohttp.connector, "monotonic", loop.time),
        (time, "time", lambda: start + loop.time()),
        (uuid, "uuid1", lambda *_: uuid.UUID(int=ids.getrandbits(128), version=1)),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    state = random.getstate()
    random.seed(seed)
    for module, name, value in replaced:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
        random.setstate(state)


def run(
    main: Callable[[], Coroutine[Any, Any, T]], *, seed: int, epoch: datetime, horizon_seconds: float = HORIZON_SECONDS
) -> T:
    """Run `main()` on a fresh virtual loop until it returns; then its unfinished tasks are cancelled.

    Raises the error of `main` (with unhandled failures as notes), `SilentFailures` if it returned and there were
    unhandled failures, and `DeadlockError`, `LivelockError` or `HorizonError`.
    """
    loop = SimLoop(horizon_seconds=horizon_seconds)
    with repeatable(loop, seed=seed, epoch=epoch):
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                result = runner.run(main())
        except BaseException as error:
            for failure in loop.unseen_failures():
                error.add_note(f"unhandled: {failure!r}")
            raise
        if failures := loop.unseen_failures():
            raise SilentFailures("the run ended with unhandled errors", failures)
    return result
