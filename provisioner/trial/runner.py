"""Runs one trial from its start to its result.

The exit code is 0 only if everything expected was observed and no invariant was violated.
"""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from provisioner.operator.azure import CLOUD
from provisioner.runtime.clock import SystemClock
from provisioner.simulator.invariants import InvariantError

from . import messages
from .end_to_end import run_once
from .manifests import read_objects
from .output.renderer import LogLine, Renderer, Result, Started
from .pods import run_pods
from .recorder import CONTROLLER, EventRecorder, RowTracker
from .session import Session, SessionSettings, open_session

Json = dict[str, Any]
OK, FAILED = 0, 1
# The timeout of each wait of `--once`: for the controller, in real time, and for Azure, in simulated time.
CONTROLLER_TIMEOUT_SECONDS, AZURE_TIMEOUT_SECONDS = 60.0, 1800.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The claims of these files. `once`: applied and deleted by the run itself, else by the user with kubectl.

    `pods`: the files have a NodePool and pods instead of claims.
    """

    once: bool
    pods: bool
    paths: tuple[Path, ...]
    claims: tuple[Json, ...]


async def run(settings: SessionSettings, plan: Plan, renderer: Renderer) -> int:
    """The exit code of a run with `once`; without, serves until cancelled. Raises StartError."""
    try:
        async with open_session(settings) as running:
            with renderer.live():
                result = await _run(running, plan, renderer)
    except InvariantError as error:
        result = Result(ok=False, text="An invariant was violated:", missing=tuple(str(error).splitlines()))
    renderer.finished(result)
    return OK if result.ok else FAILED


async def _run(running: Session, plan: Plan, renderer: Renderer) -> Result:
    time = asyncio.get_running_loop().time
    region = running.world.settings.azure.location
    prices = CLOUD.list_prices(region).on_demand if plan.pods else {}
    tracker = RowTracker(running.world, time, SystemClock(), renderer.rows, prices=prices)

    def emit(line: LogLine) -> None:
        renderer.line(line)
        tracker.line(line)

    recorder = EventRecorder(running.world, time, emit)
    renderer.started(_started(running, plan))
    async with asyncio.TaskGroup() as tasks:
        ticking = tasks.create_task(tracker.tick())
        try:
            if plan.once:
                play = _pods_once if plan.pods else _once
                result = await play(running, recorder, plan)
                return replace(result, ready_seconds=tracker.ready_seconds)
            never: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
            return await never
        finally:
            ticking.cancel()


def _started(running: Session, plan: Plan) -> Started:
    settings, commands = running.settings, ""
    if not plan.once:
        names = [claim["metadata"]["name"] for claim in plan.claims]
        if plan.pods:
            kubectl = messages.pod_commands(settings.kubeconfig, plan.paths)
        else:
            kubectl = messages.commands(settings.kubeconfig, plan.paths, names, running.scenario)
        check = messages.check_command(running.addresses.arm, running.world.settings.azure)
        commands = f"{kubectl}\n\n{check}\n\nMetrics of the controller: {running.metrics}"
    return Started(
        text=messages.introduction(settings.speed),
        scenario="" if running.scenario is None else messages.injected(running.scenario),
        commands=commands,
        kubeconfig=str(settings.kubeconfig.absolute()),
        api_server=running.addresses.kube,
        arm=running.addresses.arm,
        metrics=running.metrics,
    )


async def _pods_once(running: Session, recorder: EventRecorder, plan: Plan) -> Result:
    objects = read_objects(plan.paths)
    story = await run_pods(running, recorder, objects, timeout_seconds=_timeout_seconds(running))
    calls = _pool_requests(running)
    text = messages.pods_result(story, calls=calls, lists=recorder.lists) if story.ok else "The run failed:"
    return Result(ok=story.ok, text=text, missing=story.missing, arm_calls=calls, arm_lists=recorder.lists)


async def _once(running: Session, recorder: EventRecorder, plan: Plan) -> Result:
    missing = await run_once(running, recorder, plan.claims, timeout_seconds=_timeout_seconds(running))
    calls = _pool_requests(running)
    text = "The run failed:"
    if not missing:
        text = messages.result(len(plan.claims), running.scenario, calls=calls, lists=recorder.lists)
    return Result(ok=not missing, text=text, missing=tuple(missing), arm_calls=calls, arm_lists=recorder.lists)


def _timeout_seconds(running: Session) -> float:
    return CONTROLLER_TIMEOUT_SECONDS + AZURE_TIMEOUT_SECONDS / running.settings.speed


def _pool_requests(running: Session) -> int:
    """The controller's requests for single agent pools."""
    requests = running.world.audit_log.calls(who=CONTROLLER, system="arm", kind="pools")
    return sum(call.verb != "LIST" for call in requests)
