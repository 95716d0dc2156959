"""One trial, from its opening to its verdict.

Promise: returns 0 only if all that was announced was seen and no promise was broken meanwhile.
Left to others: what is done and seen (`script.py`), what is said (`guide.py`), what the exit code means (`command.py`).
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from provisioner.simulator.invariants import InvariantError

from .claims import Json
from .guide import announcement, checking, commands, opening, verdict
from .printing import Printer
from .script import play
from .session import Trial, TrialSettings, trial
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


async def perform(settings: TrialSettings, playbill: Playbill, printer: Printer) -> int:
    """Run the trial; returns the exit code, or serves until cancelled. Raises CannotBegin."""
    try:
        async with trial(settings) as running:
            story = Story(running.world, asyncio.get_running_loop().time, printer.line)
            printer.prose(opening(settings.speed) + "\n", "bold")
            if running.failure is not None:
                printer.prose(announcement(running.failure) + "\n")
            if playbill.once:
                return await _once(running, story, playbill, printer)
            return await _serve(running, playbill, printer)
    except InvariantError as error:
        printer.verdict(f"\nA promise was broken:\n{error}", good=False)
        return FAILED


async def _once(running: Trial, story: Story, playbill: Playbill, printer: Printer) -> int:
    patience = OWN_PATIENCE_SECONDS + AZURE_PATIENCE_SECONDS / running.settings.speed
    missing = await play(running, story, playbill.claims, patience_seconds=patience)
    if missing:
        printer.verdict("\nIt did not go as it should:", good=False)
        for what in missing:
            printer.prose(f"  {what}")
        return FAILED
    requests = running.world.ledger.calls(who=CONTROLLER, system="arm", kind="pools")
    calls = sum(call.verb != "LIST" for call in requests)
    words = verdict(len(playbill.claims), running.failure, calls=calls, lists=story.lists)
    printer.verdict(f"\n{words}", good=True)
    return OK


async def _serve(running: Trial, playbill: Playbill, printer: Printer) -> int:
    names = [claim["metadata"]["name"] for claim in playbill.claims]
    told = commands(running.settings.kubeconfig, playbill.paths, names, running.failure)
    printer.verbatim(f"{told}\n\n{checking(running.addresses.arm, running.world.settings.azure)}\n")
    await asyncio.get_running_loop().create_future()  # until somebody ends it
    return OK
