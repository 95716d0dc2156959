"""`docs/reference/testing.md`: what the tests have shown, in figures, and which answers about Azure are unverified.

The figures are read from files that long runs write; a section without its file is left out.
"""

import tomllib
from collections import Counter
from pathlib import Path

import msgspec

from tests.oracle.suites.rows import COMMIT, suites
from tests.swarm import figures
from tests.swarm.catalogue import Fault, faults

from .markdown import code, page, table

UNVERIFIED = Path(__file__).with_name("unverified.toml")

INTRODUCTION = """\
The whole controller runs against a simulated Azure, API server and machines on virtual time. A seed draws what a run
has: faults, settings, workloads, and how the machines differ from what the controller predicts. The
[invariants](../references/rules.md#invariants) are checked after every write. When the faults have ended, everything
must converge within two hours; then nothing is written for 30 minutes, and after the removal of everything nothing
remains. The reasons are in [ADR 86](../adr/0086-swarm.md), the method in
[Reliability](../references/reliability.md#method)."""

CAMPAIGN = """\
`make swarm FIGURES=tests/swarm/figures.toml` ran the seeds on {date} at commit {commit}. A state is that of one
machine: its agent pool, Node, NodeClaim and command, and whether a controller leads; a pair is a state and the next
one."""

FAULTS = """\
The catalogue is `tests/swarm/faults.toml`. Seeds inject each fault that has a verb; the tests that a row names
inject the others. {survived}"""

MUTANTS = """\
Defects are planted one by one; a seed finds one if it fails with it and not without. The time is that of one
processor, for the seeds that were run. Those of a row that says *chosen* were not all seeds in order, but the first
17 and then some whose plans have what the defect concerns: another seed may find it before, and all seeds up to it
take longer, see [Seeds](#seeds) for how many run in an hour."""

STORIES = """\
Each row is a defect of the past, planted again by going back to the commit before it was mended; a seed finds it by
itself, or the reason says why none did."""

KARPENTER = f"""\
Every test of these suites of Karpenter, at commit `{COMMIT}`, has a verdict: see
[Karpenter's test suites](../references/karpenter-suites.md)."""

ANSWERS = """\
Nobody has confirmed the following on the real service. The tests run with each answer of a setting of the simulator,
and seeds draw some of them. `tests/contract` asks a real cluster, with `AZURE_LIVE=1`."""


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of `unverified.toml`, where the members are explained."""

    what: str
    page: str
    depends: str
    settings: tuple[str, ...]
    marks: str = ""


def answers() -> tuple[Answer, ...]:
    """Raises msgspec.ValidationError for an invalid file."""
    return msgspec.convert(tomllib.loads(UNVERIFIED.read_text(encoding="utf-8"))["answer"], tuple[Answer, ...])


def render() -> str:
    """The page."""
    found = figures.campaign()
    sections = [
        ("Seeds", _campaign(found) if found else ""),
        ("Faults", _faults(found)),
        ("Planted defects", _mutants(figures.mutants())),
        ("Defects of the past", _stories(figures.stories())),
        ("Karpenter's test suites", _karpenter()),
        ("Unverified answers", f"{ANSWERS}\n\n{_answers()}"),
    ]
    parts = [part for title, text in sections if text for part in (f"## {title}", text)]
    return page("How this is tested", "tools/reference/testing.py", INTRODUCTION, *parts)


def _campaign(found: figures.Campaign) -> str:
    rows = [
        ["seeds", f"{found.seeds:,}"],
        ["of which failed", f"{found.failed:,}"],
        ["seeds an hour and processor", f"{found.seeds / found.hours:,.0f}" if found.hours else ""],
        ["virtual days of a cluster", f"{found.days:,}"],
        ["virtual years of a machine", f"{found.machine_years:,}"],
        ["faults injected", f"{found.faults:,}"],
        ["pairs of states", f"{found.pairs:,}"],
        ["seeds since the last new pair", f"{found.idle:,}"],
        ["different reasons of conditions and Events", f"{found.marks:,}"],
    ]
    text = CAMPAIGN.format(date=found.date, commit=code(found.commit))
    return f"{text}\n\n{table(['Figure', 'Value'], rows)}"


def _faults(found: figures.Campaign | None) -> str:
    drawn = [one for one in faults().values() if one.verb]
    layers = Counter(one.layer for one in faults().values())
    rows = [[layer, *_numbers([one for one in faults().values() if one.layer == layer])] for layer in layers]
    rows.append(["all", *_numbers([*faults().values()])])
    survived = len({one.name for one in drawn} & {*found.survived}) if found else 0
    text = f"Of {len(drawn)} kinds, {survived} occurred in runs that passed." if found else ""
    return f"{FAULTS.format(survived=text).strip()}\n\n{table(['Layer', 'Kinds', 'By seeds', 'By tests only'], rows)}"


def _numbers(rows: list[Fault]) -> list[str]:
    by_seeds = sum(bool(one.verb) for one in rows)
    return [str(len(rows)), str(by_seeds), str(len(rows) - by_seeds)]


def _mutants(found: tuple[figures.Mutant, ...]) -> str:
    if not found:
        return ""
    killed = sum(one.seed > 0 for one in found)
    rows = [[code(one.name), _seed(one), f"{one.cpu_seconds:,.0f} s", one.why] for one in found]
    heads = ["Defect", "Found by seed", "Within", "How, or why not"]
    return f"{MUTANTS} {killed} of {len(found)} are found.\n\n{table(heads, rows)}"


def _seed(one: figures.Mutant) -> str:
    if not one.seed:
        return "none"
    return f"{one.seed}, *chosen*" if one.chosen else str(one.seed)


def _stories(found: tuple[figures.Story, ...]) -> str:
    if not found:
        return ""
    by_itself = [one for one in found if one.found]
    share = f"{len(by_itself)} of {len(found)} ({len(by_itself) / len(found):.0%}) are found."
    rows = [[one.defect, code(one.name), str(one.found or "none"), one.by or one.reason] for one in found]
    return f"{STORIES} {share}\n\n{table(['Defect', 'Story', 'Found by seed', 'By, or why not'], rows)}"


def _karpenter() -> str:
    rows = [one for suite in suites().values() for one in suite.row]
    verdicts = Counter(one.verdict.replace("-", " ") for one in rows)
    counts = [[verdict, str(number)] for verdict, number in verdicts.most_common()]
    unexplained = sum(len(suite.unexplained) for suite in suites().values())
    counts.append(["unexplained", str(unexplained)])
    return f"{KARPENTER}\n\n{table(['Verdict', 'Tests'], counts)}"


def _answers() -> str:
    rows = [
        [
            f"[{one.what}](../{one.page.removeprefix('docs/')})",
            one.depends,
            ", ".join(code(setting) for setting in one.settings) or "none",
        ]
        for one in answers()
    ]
    return table(["Unknown", "What depends on it", "Setting of the simulator"], rows)
