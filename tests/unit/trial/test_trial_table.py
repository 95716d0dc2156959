"""The table of `try`: what phase a claim is in, which rows there are, how they stand on terminals of any size."""

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controllers.planner.plan import Phase
from provisioner.api import labels
from provisioner.simulator.azure.agentpool import Pool
from provisioner.trial.jsonlines import JsonLines
from provisioner.trial.layout import cut, duration, layout
from provisioner.trial.printing import Line
from provisioner.trial.records import documented
from provisioner.trial.rows import MOST_GONE, Moment, Row, Told, rows
from provisioner.trial.shows import Ending, Opening

Json = dict[str, Any]
SIZE = "Standard_NC24ads_A100_v4"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def claim(name: str = "c", *, going: bool = False, **conditions: Any) -> Json:
    """A claim with conditions as in `Launched="False QuotaExceeded"`."""
    said = [
        {"type": kind, "status": words.split()[0], "reason": words.split()[-1]} for kind, words in conditions.items()
    ]
    for condition in said:
        condition["lastTransitionTime"] = "2026-11-21T12:00:00Z"
    metadata = {"name": name, "uid": f"uid-{name}"} | ({"deletionTimestamp": "2026-11-21T12:00:00Z"} if going else {})
    requirements = [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": [SIZE, "Standard_NC4as_T4_v3"]}]
    return {"metadata": metadata, "spec": {"requirements": requirements}, "status": {"conditions": said}}


def node(name: str = "c", *, ready: str = "True", gpus: int = 0) -> Json:
    return {
        "metadata": {"name": f"node-{name}", "labels": {labels.CLAIM_UID: f"uid-{name}"}},
        "status": {"conditions": [{"type": "Ready", "status": ready}], "allocatable": {"nvidia.com/gpu": str(gpus)}},
    }


def pool(name: str = "c", state: str = "Creating", size: str = SIZE) -> Pool:
    properties = {"vmSize": size, "tags": {labels.TAG_CLAIM_UID: f"uid-{name}"}}
    return Pool(name=name, properties=properties, state=state, etag="e", incarnation=1, created=NOON)


def moment(seconds: float) -> Moment:
    return Moment(at=seconds, time=NOON + timedelta(seconds=seconds))


# --- rows ------------------------------------------------------------------------------------------------------------


def look(
    before: Sequence[Row], *claims: Json, at: float = 0.0, told: dict[str, Told] | None = None, **more: Any
) -> tuple[Row, ...]:
    return rows(before, claims, more.get("nodes", ()), more.get("pools", ()), told=told or {}, now=moment(at))


def test_a_phase_began_when_it_was_first_seen() -> None:
    """Looks in between do not move it; the next phase begins anew."""
    first = look((), claim(Launched="Unknown Creating"), at=1, pools=[pool()])
    later = look(first, claim(Launched="Unknown Creating"), at=5, pools=[pool()])
    assert later == first
    assert [(row.phase, row.entered.at) for row in later] == [("Launching", 1)]
    (ready,) = look(later, claim(Ready="True"), at=9, pools=[pool()], nodes=[node(gpus=1)])
    assert (ready.phase, ready.entered, ready.gpus_seen, ready.gpus_expected) == ("Ready", moment(9), 1, 1)


def test_the_size_is_that_of_the_machine() -> None:
    """Before there is one, the first that the claim asks for; GPUs are counted against it."""
    (asked,) = look((), claim())
    (given,) = look((), claim(), pools=[pool(size="Standard_NC96ads_A100_v4")])
    assert (asked.size, asked.gpus_expected) == (SIZE, 1)
    assert (given.size, given.gpus_expected) == ("Standard_NC96ads_A100_v4", 4)


def test_a_claim_that_is_gone_keeps_its_row_at_its_place() -> None:
    """Since when it is gone, and what was said last; a new claim of its name takes over."""
    before = look((), claim("a", going=True), claim("b"), at=1)
    after = look(before, claim("b"), at=4, told={"a": Told(last="NodeClaim is gone", own="")})
    assert [(row.name, row.phase, row.entered.at) for row in after] == [("a", "Terminated", 4), ("b", "Pending", 1)]
    assert after[0].last_event == "NodeClaim is gone"
    assert look(after, claim("b"), at=9) == (after[0], replace(after[1], last_event=""))
    again = claim("a")
    again["metadata"]["uid"] = "another"
    assert [(row.name, row.phase) for row in look(after, claim("b"), again, at=9)] == [
        ("b", "Pending"),
        ("a", "Pending"),
    ]


def test_not_all_that_ever_went_is_remembered() -> None:
    """The latest ones are."""
    shown: tuple[Row, ...] = ()
    for number in range(MOST_GONE + 10):
        shown = look(shown, claim(f"c{number}"), at=number)
    shown = look(shown, at=1000)
    assert [row.name for row in shown] == [f"c{number}" for number in range(10, MOST_GONE + 10)]


def test_a_refused_claim_shows_why() -> None:
    """Not what happened to its pool since; any other shows what happened last."""
    told = {"c": Told(last="AgentPool is gone", own="NodeClaim Launched = False: AllocationFailed")}
    (refused,) = look((), claim(Launched="False AllocationFailed"), told=told)
    assert refused.last_event == "NodeClaim Launched = False: AllocationFailed"
    (creating,) = look((), claim(Launched="Unknown Creating"), told=told, pools=[pool()])
    assert creating.last_event == "AgentPool is gone"


# --- on a terminal ---------------------------------------------------------------------------------------------------


def row(name: str = "ws3f2a91c0d", phase: str = "Launching", at: float = 0.0, event: str = "") -> Row:
    return Row(
        name=name,
        uid=f"uid-{name}",
        size=SIZE,
        phase=Phase(phase),
        entered=moment(at),
        gpus_seen=0,
        gpus_expected=1,
        last_event=event,
    )


def texts(shown: Sequence[Row], *, width: int, height: int = 24, now: float = 65.0) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in layout(shown, now, width=width, height=height)]


def test_a_wide_terminal_has_all_beside_each_other() -> None:
    """A line a claim, under a head."""
    event = "NodeClaim Launched = Unknown: Creating since 12:00:00Z"
    assert texts([row(event=event)], width=160) == [
        "CLAIM        SIZE                      PHASE                FOR     GPUS  SINCE      LAST EVENT",
        f"ws3f2a91c0d  Standard_NC24ads_A100_v4  Launching            1m5s    0/1   12:00:00Z  {event}",
    ]


def test_eighty_columns_have_the_event_beneath() -> None:
    """Whole columns, then what happened, in three lines at most; fewer where there are too many claims for that."""
    event = "the cause comes first, and " + "its many words " * 20
    table = texts([row(event=event)], width=80)
    assert table[:3] == [
        "CLAIM        SIZE             PHASE                FOR     GPUS  SINCE",
        "ws3f2a91c0d  NC24ads_A100_v4  Launching            1m5s    0/1   12:00:00Z",
        "  └ the cause comes first, and its many words its many words its many words its",
    ]
    assert len(table) == 5
    assert table[3].startswith("    many words its")
    assert table[4].endswith("…")
    three = [row(name, event=event) for name in "abc"]
    heights = [len(texts(three, width=80, height=height)) for height in (13, 12, 10, 9, 7, 6, 4)]
    assert heights == [13, 10, 10, 7, 7, 4, 4]
    assert texts(three, width=80, height=7)[2].endswith("…")


def test_columns_go_one_after_the_other() -> None:
    """Claim and phase are left at last."""
    heads = [texts([row()], width=width)[0].split() for width in (79, 65, 48, 40, 30)]
    assert heads == [
        ["CLAIM", "SIZE", "PHASE", "FOR", "GPUS", "SINCE"],
        ["CLAIM", "SIZE", "PHASE", "FOR", "GPUS"],
        ["CLAIM", "PHASE", "FOR", "GPUS"],
        ["CLAIM", "PHASE", "FOR"],
        ["CLAIM", "PHASE"],
    ]
    assert "  NC24ads_A100_v4  " in texts([row()], width=79)[1]


@pytest.mark.parametrize("height", [3, 5, 9, 24])
@pytest.mark.parametrize("count", [0, 1, 3, 40])
def test_nothing_is_longer_or_higher_than_the_terminal(count: int, height: int) -> None:
    """Whatever its size, and however many claims there are."""
    shown = [row(f"claim-{number}", event="what happened last to it, in words") for number in range(count)]
    for width in range(1, 130):
        lines = texts(shown, width=width, height=height)
        assert len(lines) <= height
        assert max(map(len, lines)) <= width


def test_what_does_not_fit_is_counted() -> None:
    """Claims that are gone give way first, the longest gone before the others; then whatever comes last."""
    shown = [
        row("a", "Terminated", 1),
        row("b", "Terminated", 2),
        row("c", "Ready"),
        row("d", "Launching"),
        row("e", "Ready"),
    ]
    assert [line.split()[0] for line in texts(shown, width=80, height=6)] == ["CLAIM", "a", "b", "c", "d", "e"]
    low = texts(shown, width=80, height=5)
    assert [line.split()[0] for line in low[1:4]] == ["c", "d", "e"]
    assert low[4] == "… and 2 more: 2 Terminated"
    assert texts(shown, width=80, height=3)[2] == "… and 4 more: 2 Terminated, 1 Launching, 1 Ready"


def test_a_table_without_rows_says_so() -> None:
    """Until somebody applies a claim."""
    assert texts([], width=80) == ["no NodeClaim yet"]


def test_phases_have_their_colours() -> None:
    """Good is green, bad is red, what is gone is quiet altogether."""

    def tones(phase: str) -> dict[str, str]:
        _, line, *_ = layout([row(phase=phase)], 0.0, width=80, height=24)
        return {text.strip(): tone for text, tone in line}

    assert tones("Ready")["Ready"] == "good"
    assert tones("Failed")["Failed"] == "bad"
    assert set(tones("Terminated").values()) == {"quiet"}
    assert tones("Ready")["ws3f2a91c0d"] == "plain"


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0s"), (59.9, "59s"), (60, "1m0s"), (3599, "59m59s"), (3600, "1h0m"), (90061, "25h1m")]
)
def test_times_are_short(seconds: float, text: str) -> None:
    """Never wider than their column in the first hour."""
    assert duration(seconds) == text


def test_texts_are_cut_where_they_must_be() -> None:
    """With a mark that something is missing."""
    assert [cut("abcd", width) for width in (5, 4, 3, 1, 0)] == ["abcd", "abcd", "ab…", "…", ""]


# --- for programs ----------------------------------------------------------------------------------------------------


def test_json_has_an_object_a_line_of_the_documented_fields() -> None:
    """Beginning, events, rows only when they changed, end; the help names just these."""
    out = io.StringIO()
    show = JsonLines(out)
    show.begun(Opening(told="t", announced="", to_copy="", kubeconfig="/k", api_server="http://k", arm="http://a"))
    show.line(Line(at=1.23456, claim="c", who="ARM", text="PUT agent pool -> 201 Created", tone="quiet"))
    show.rows([row("c")], 2.0)
    show.rows([row("c")], 3.0)
    show.rows([row("c", "Ready", 4.0)], 4.0)
    show.ended(Ending(ok=False, told="words", missing=("c: Ready is not True",), arm_calls=3, arm_lists=2))
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["kind"] for line in lines] == ["begun", "event", "claim", "claim", "ended"]
    assert lines[1] == {
        "kind": "event", "at_seconds": 1.235, "claim": "c", "who": "ARM", "text": "PUT agent pool -> 201 Created",
    }  # fmt: skip
    assert lines[3] == {
        "kind": "claim", "at_seconds": 4.0, "claim": "c", "size": SIZE, "phase": "Ready",
        "since": "2026-11-21T12:00:04Z", "gpus_seen": 0, "gpus_expected": 1,
    }  # fmt: skip
    assert lines[4]["missing"] == ["c: Ready is not True"]
    named = {line.split(": ")[0]: line.split(": ")[1].split(", ") for line in documented()}
    assert all(set(line) - {"kind"} == set(named[line["kind"]]) for line in lines)
