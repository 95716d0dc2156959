"""The table of `try`: its rows, and their layout on terminals of any size; and the JSON output."""

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from provisioner.api import labels
from provisioner.api.nodeclaim import Phase
from provisioner.simulator.azure.agentpool import Pool
from provisioner.trial.output.record_stream import RecordRenderer
from provisioner.trial.output.records import documented
from provisioner.trial.output.renderer import LogLine, Result, Started
from provisioner.trial.output.table_layout import duration, layout, truncate
from provisioner.trial.rows import TERMINATED_SECONDS, Moment, Row, rows

Json = dict[str, Any]
SIZE = "Standard_NC24ads_A100_v4"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def claim(name: str = "c", *, going: bool = False, **conditions: Any) -> Json:
    """A claim with conditions as in `Launched="False QuotaExceeded"`."""
    found = [
        {"type": kind, "status": words.split()[0], "reason": words.split()[-1]} for kind, words in conditions.items()
    ]
    for condition in found:
        condition["lastTransitionTime"] = "2026-11-21T12:00:00Z"
    metadata = {"name": name, "uid": f"uid-{name}"} | ({"deletionTimestamp": "2026-11-21T12:00:00Z"} if going else {})
    requirements = [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": [SIZE, "Standard_NC4as_T4_v3"]}]
    return {"metadata": metadata, "spec": {"requirements": requirements}, "status": {"conditions": found}}


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


def update(
    before: Sequence[Row], *claims: Json, at: float = 0.0, events: dict[str, str] | None = None, **more: Any
) -> tuple[Row, ...]:
    return rows(
        before,
        claims,
        more.get("nodes", ()),
        more.get("pools", ()),
        events=events or {},
        now=moment(at),
        prices=more.get("prices", {}),
    )


def test_a_phase_begins_at_the_first_update_with_it() -> None:
    """Later updates keep the time; the next phase gets its own."""
    first = update((), claim(Launched="Unknown Creating"), at=1, pools=[pool()])
    later = update(first, claim(Launched="Unknown Creating"), at=5, pools=[pool()])
    assert later == first
    assert [(row.phase, row.entered.at) for row in later] == [("Launching", 1)]
    (ready,) = update(later, claim(Ready="True"), at=9, pools=[pool()], nodes=[node(gpus=1)])
    assert (ready.phase, ready.entered, ready.gpus_allocatable, ready.gpus_expected) == ("Ready", moment(9), 1, 1)


def test_the_size_is_that_of_the_machine() -> None:
    """Without a machine, the first one that the claim requests; it determines the expected GPUs."""
    (requested,) = update((), claim())
    (given,) = update((), claim(), pools=[pool(size="Standard_NC96ads_A100_v4")])
    assert (requested.size, requested.gpus_expected) == (SIZE, 1)
    assert (given.size, given.gpus_expected) == ("Standard_NC96ads_A100_v4", 4)


def test_texts_of_a_claim_are_printable() -> None:
    """The API server accepts any text as a value of a requirement."""
    hostile = claim(Launched="False Rejected\x1b[2J")
    hostile["spec"]["requirements"][0]["values"] = ["\x1b[2J\u202eS1"]
    (found,) = update((), hostile)
    assert (found.size, "\x1b" in found.status) == ("\\x1b[2J\\u202eS1", False)


def test_the_row_of_a_deleted_claim_stays_in_its_place() -> None:
    """With the time of the deletion and the last event; a new claim of the same name replaces it."""
    before = update((), claim("a", going=True), claim("b"), at=1)
    after = update(before, claim("b"), at=4, events={"a": "NodeClaim deleted"})
    assert [(row.name, row.phase, row.entered.at) for row in after] == [("a", "Terminated", 4), ("b", "Pending", 1)]
    assert after[0].status == "NodeClaim deleted"
    assert update(after, claim("b"), at=9) == (after[0], replace(after[1], status=""))
    again = claim("a")
    again["metadata"]["uid"] = "another"
    assert [(row.name, row.phase) for row in update(after, claim("b"), again, at=9)] == [
        ("b", "Pending"),
        ("a", "Pending"),
    ]


def test_the_row_of_a_deleted_claim_leaves_the_table_after_some_seconds() -> None:
    before = update((), claim("a", going=True), at=1)
    gone = update(before, at=4)
    assert [row.phase for row in update(gone, at=4 + TERMINATED_SECONDS - 0.1)] == ["Terminated"]
    assert update(gone, at=4 + TERMINATED_SECONDS) == ()


def test_a_row_shows_what_its_claim_waits_for() -> None:
    """The first condition that is not True, and not the events of its pool since then; the last event without one."""
    events = {"c": "AgentPool running"}
    waits = claim(Launched="True", Registered="True", Initialized="Unknown ResourceNotRegistered")
    (waiting,) = update((), waits, events=events, pools=[pool()])
    assert waiting.status.startswith("ResourceNotRegistered: ")
    (failed,) = update((), claim(Launched="False AllocationFailed"), events=events)
    assert failed.status.startswith("AllocationFailed: ")
    (pending,) = update((), claim(Launched="Unknown AwaitingReconciliation"), events=events)
    assert pending.status == "AgentPool running"


def test_the_time_to_ready_counts_from_the_creation_and_is_kept() -> None:
    first = update((), claim(Launched="Unknown Creating"), at=1)
    ready = update(first, claim(Ready="True"), at=4.5)
    lost = update(ready, claim(Ready="False NodeLost"), at=9)
    assert [row.ready_seconds for row in (*first, *ready, *lost)] == [None, 3.5, 3.5]


# --- on a terminal ---------------------------------------------------------------------------------------------------


def row(name: str = "ws3f2a91c0d", phase: str = "Launching", at: float = 0.0, event: str = "") -> Row:
    return Row(
        name=name,
        uid=f"uid-{name}",
        size=SIZE,
        phase=Phase(phase),
        entered=moment(at),
        gpus_allocatable=0,
        gpus_expected=1,
        status=event,
    )


def texts(shown: Sequence[Row], *, width: int, height: int = 24, now: float = 65.0) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in layout(shown, now, width=width, height=height)]


def test_a_wide_terminal_has_all_columns() -> None:
    """One line per claim, below the header."""
    event = "NodeClaim Launched = Unknown: Creating since 12:00:00Z"
    assert texts([row(event=event)], width=160) == [
        "CLAIM        SIZE                      PHASE                FOR     GPUS  SINCE      STATUS",
        f"ws3f2a91c0d  Standard_NC24ads_A100_v4  Launching            1m5s    0/1   12:00:00Z  {event}",
    ]


def test_prices_stand_beside_sizes_with_their_sum_below() -> None:
    """A row without a price has none; on a terminal with three lines the sum is left out."""
    priced = [replace(row("a"), price=0.526), replace(row("b"), price=3.673), row("c", "Terminated")]
    assert texts(priced, width=80) == [
        "CLAIM  SIZE             USD/H  PHASE                FOR     GPUS  SINCE",
        "a      NC24ads_A100_v4  0.526  Launching            1m5s    0/1   12:00:00Z",
        "b      NC24ads_A100_v4  3.673  Launching            1m5s    0/1   12:00:00Z",
        "c      NC24ads_A100_v4  -      Terminated           1m5s    0/1   12:00:00Z",
        "fleet: 4.199 USD an hour at list prices",
    ]
    assert [len(texts(priced, width=80, height=height)) for height in (5, 4, 3)] == [5, 4, 3]
    assert texts(priced, width=80, height=3)[-1].startswith("… and 2 more")


def test_a_row_has_the_price_of_its_size_until_it_is_terminated() -> None:
    """The price of the size that the claim requests, then of its machine."""
    first = update((), claim(), prices={SIZE.lower(): 3.673})
    gone = rows(first, (), (), (), events={}, now=moment(5), prices={SIZE.lower(): 3.673})
    assert [row.price for row in (*first, *gone)] == [3.673, None]


def test_at_eighty_columns_the_event_is_below_the_row() -> None:
    """In at most three lines, fewer if the table would be higher than the terminal."""
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


def test_columns_are_dropped_one_by_one() -> None:
    """Claim and phase remain."""
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
def test_the_table_fits_the_terminal(count: int, height: int) -> None:
    """At any size, with any number of claims."""
    shown = [row(f"claim-{number}", event="the last event of the claim") for number in range(count)]
    for width in range(1, 130):
        lines = texts(shown, width=width, height=height)
        assert len(lines) <= height
        assert max(map(len, lines)) <= width


def test_hidden_rows_are_counted() -> None:
    """Terminated claims are hidden first, the oldest before others; then the last rows."""
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


def test_an_empty_table() -> None:
    """Before a claim is applied."""
    assert texts([], width=80) == ["no NodeClaims"]


def test_phases_have_their_colours() -> None:
    """Ready is green, failures are red, and the whole row of a terminated claim is dim."""

    def styles(phase: str) -> dict[str, str]:
        _, line, *_ = layout([row(phase=phase)], 0.0, width=80, height=24)
        return {text.strip(): style for text, style in line}

    assert styles("Ready")["Ready"] == "success"
    assert styles("Failed")["Failed"] == "error"
    assert set(styles("Terminated").values()) == {"dim"}
    assert styles("Ready")["ws3f2a91c0d"] == "plain"


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0s"), (59.9, "59s"), (60, "1m0s"), (3599, "59m59s"), (3600, "1h0m"), (90061, "25h1m")]
)
def test_times_are_short(seconds: float, text: str) -> None:
    """Within the first hour they fit their column."""
    assert duration(seconds) == text


def test_long_text_is_truncated() -> None:
    """With an ellipsis."""
    assert [truncate("abcd", width) for width in (5, 4, 3, 1, 0)] == ["abcd", "abcd", "ab…", "…", ""]


# --- records ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_records_have_the_documented_fields(output: str) -> None:
    """A claim is written only when its row changed; the help lists exactly these fields."""
    out = io.StringIO()
    renderer = RecordRenderer(out, output)
    renderer.started(
        Started(
            text="t",
            scenario="",
            commands="",
            kubeconfig="/k",
            api_server="http://k",
            arm="http://a",
            metrics="http://m",
        )
    )
    renderer.line(LogLine(at=1.23456, claim="c", source="ARM", text="PUT agent pool -> 201 Created", style="dim"))
    renderer.rows([row("c")], 2.0)
    renderer.rows([row("c")], 3.0)
    renderer.rows([row("c", "Ready", 4.0)], 4.0)
    renderer.finished(Result(ok=False, text="t", missing=("c: Ready is not True",), arm_calls=3, arm_lists=2))
    text = out.getvalue()
    lines = [json.loads(line) for line in text.splitlines()] if output == "json" else [*yaml.safe_load_all(text)]
    assert [line["kind"] for line in lines] == ["started", "event", "claim", "claim", "finished"]
    assert lines[1] == {
        "kind": "event", "at_seconds": 1.235, "claim": "c", "source": "ARM", "text": "PUT agent pool -> 201 Created",
    }  # fmt: skip
    assert lines[3] == {
        "kind": "claim", "at_seconds": 4.0, "claim": "c", "size": SIZE, "phase": "Ready",
        "since": "2026-11-21T12:00:04Z", "gpus_allocatable": 0, "gpus_expected": 1, "price": None,
    }  # fmt: skip
    assert lines[4]["missing"] == ["c: Ready is not True"]
    named = {line.split(": ")[0]: line.split(": ")[1].split(", ") for line in documented()}
    assert all(set(line) - {"kind"} == set(named[line["kind"]]) for line in lines)
