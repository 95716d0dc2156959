"""One trial, from its opening to its verdict.

Returns 0 only if all that was announced was seen and no promise was broken meanwhile.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from provisioner.runtime.clock import SystemClock
from provisioner.simulator.invariants import InvariantError

from .board import Board
from .claims import Json
from .guide import announcement, checking, commands, opening, verdict
from .printing import Line
from .script import play
from .session import Trial, TrialSettings, trial
from .shows import Ending, Opening, Show
from .story import CONTROLLER, Story

OK, FAILED = 0, 1
# For each wait of `--once`: the controller's own pace, and what Azure takes at most.
OWN_PATIENCE_SECONDS, AZURE_PATIENCE_SECONDS = 60.0, 1800.0


@dataclass(frozen=True, kw_only=True)
class Playbill:
    """The claims of these files; `once`: played to their end, else left to whoever has kubectl."""

    once: bool
    paths: tuple[Path, ...]
    claims: tuple[Json, ...]


async def perform(settings: TrialSettings, playbill: Playbill, show: Show) -> int:
    """Run the trial; returns the exit code, or serves until cancelled. Raises CannotBegin."""
    try:
        async with trial(settings) as running:
            with show.running():
                ending = await _performed(running, playbill, show)
    except InvariantError as error:
        ending = Ending(ok=False, told="A promise was broken:", missing=tuple(str(error).splitlines()))
    show.ended(ending)
    return OK if ending.ok else FAILED


async def _performed(running: Trial, playbill: Playbill, show: Show) -> Ending:
    time = asyncio.get_running_loop().time
    board = Board(running.world, time, SystemClock(), show.rows)

    def tell(line: Line) -> None:
        show.line(line)
        board.line(line)

    story = Story(running.world, time, tell)
    show.begun(_opening(running, playbill))
    async with asyncio.TaskGroup() as tasks:
        ticking = tasks.create_task(board.ticking())
        try:
            if playbill.once:
                return await _once(running, story, playbill)
            until_somebody_ends_it: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
            return await until_somebody_ends_it
        finally:
            ticking.cancel()


def _opening(running: Trial, playbill: Playbill) -> Opening:
    settings, to_copy = running.settings, ""
    if not playbill.once:
        names = [claim["metadata"]["name"] for claim in playbill.claims]
        told = commands(settings.kubeconfig, playbill.paths, names, running.failure)
        to_copy = f"{told}\n\n{checking(running.addresses.arm, running.world.settings.azure)}"
    return Opening(
        told=opening(settings.speed),
        announced="" if running.failure is None else announcement(running.failure),
        to_copy=to_copy,
        kubeconfig=str(settings.kubeconfig.absolute()),
        api_server=running.addresses.kube,
        arm=running.addresses.arm,
    )


async def _once(running: Trial, story: Story, playbill: Playbill) -> Ending:
    patience = OWN_PATIENCE_SECONDS + AZURE_PATIENCE_SECONDS / running.settings.speed
    missing = await play(running, story, playbill.claims, patience_seconds=patience)
    requests = running.world.audit_log.calls(who=CONTROLLER, system="arm", kind="pools")
    calls = sum(call.verb != "LIST" for call in requests)
    told = "It did not go as it should:"
    if not missing:
        told = verdict(len(playbill.claims), running.failure, calls=calls, lists=story.lists)
    return Ending(ok=not missing, told=told, missing=tuple(missing), arm_calls=calls, arm_lists=story.lists)
