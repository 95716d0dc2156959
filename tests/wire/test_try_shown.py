"""The outputs of `gpu-provisioner try`: on a pseudo-terminal of several sizes, as lines and as JSON."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .program import PROGRAM, ROOT, ended, environment, kubectl
from .screen import on_screen

pytestmark = pytest.mark.matrix(quick=0)

NAME = "ws3f2a91c0d"
WORKSPACE = ROOT / "examples" / "kaito-workspace.yaml"
HEAD = "CLAIM        SIZE             PHASE                FOR     GPUS  SINCE"
WIDE_HEAD = "CLAIM        SIZE                      PHASE                FOR     GPUS  SINCE"


def row_of(text: str, name: str = NAME) -> list[str]:
    """The cells of the row of that claim; () without a row."""
    found = [line.split() for line in text.splitlines() if line.startswith(f"{name} ")]
    assert len(found) <= 1, text
    return found[0] if found else []


def test_the_table_shows_each_phase_and_stays(tmp_path: Path) -> None:
    """`--once` at 80 columns: one table, redrawn in place; its last state and the result remain."""
    arguments = ("try", "--once", "--speed", "60", "-f", str(WORKSPACE), "--kubeconfig", str(tmp_path / "k"))
    with on_screen(tmp_path, *arguments) as shown:
        seen: list[str] = []

        def deleted(text: str) -> bool:
            phase = next(iter(row_of(text)[2:]), "")
            if phase and phase not in seen:
                seen.append(phase)
            return "NodeClaim deleted" in text

        shown.until(deleted, within_seconds=60)
        assert shown.to_the_end() == 0
    order = ["Pending", "Launching", "Registering", "Initializing", "Ready"]
    order += ["Draining", "Detaching", "InstanceTerminating", "Terminated"]
    # Short phases may end before the table is drawn; Azure's operations take seconds, also at this speed.
    assert seen == [phase for phase in order if phase in seen]
    assert {"Launching", "InstanceTerminating", "Terminated"} <= set(seen)
    lines = shown.screen.text.splitlines()
    assert lines.count(HEAD) == 1
    table = lines[lines.index(HEAD) + 1 :]
    assert table[0].split()[:3] == [NAME, "NC24ads_A100_v4", "Terminated"]
    assert table[1] == "  └ NodeClaim deleted; remaining: 0 agent pools, 0 Nodes"
    assert table[2:4] == ["", "1 NodeClaim became Ready and was deleted in the order instance, Node, NodeClaim."]
    assert max(map(len, lines)) <= 80
    assert "32" in shown.screen.colours


def test_lines_about_pods_are_above_the_table(tmp_path: Path) -> None:
    """The pod that runs, and the taint that keeps the other one away; the table has the price of the machine."""
    with on_screen(
        tmp_path, "try", "--pods", "--once", "--kubeconfig", str(tmp_path / "k"), width=160, height=40
    ) as shown:
        shown.until(lambda text: "fleet: " in text and " USD an hour" in text, within_seconds=60)
        assert shown.to_the_end() == 0
    text = shown.screen.text
    above = text[: text.index("CLAIM  SIZE")].splitlines()
    pods = [line.split(" s  ", 1)[1].split(None, 2) for line in above if line[12:].split()[1:2] == ["Pod"]]
    assert ["trainer", "Pod", "Nominated: Pod should schedule on: nodeclaim/gpu-1"] in pods
    assert ["trainer", "Pod", "Running"] in pods
    untolerated = "NodePool gpu: did not tolerate taint (taint=sku=gpu:NoSchedule)"
    assert ["intruder", "Pod", f"FailedScheduling: Failed to schedule pod, {untolerated}"] in pods
    assert "intruder" in {name for name, _, what in pods if what.startswith("FailedScheduling (kube-scheduler): 0/1")}


def test_no_color_leaves_the_table(tmp_path: Path) -> None:
    """With any value. The row of a failed claim shows the cause; logs are above the table."""
    kubeconfig = tmp_path / "kubeconfig"
    arguments = ("try", "--fail", "quota", "--kubeconfig", str(kubeconfig), "-v")
    with on_screen(tmp_path, *arguments, width=120, height=60, NO_COLOR="1") as shown:
        shown.until(lambda text: "no NodeClaims" in text)
        # With --once, the claim is deleted as soon as it has failed, possibly before the table is drawn.
        kubectl(kubeconfig, "apply", "-f", str(WORKSPACE))
        text = shown.until(lambda text: "Failed" in row_of(text) and "└ QuotaExceeded: " in text)
        table = text[text.index(WIDE_HEAD) :].splitlines()
        assert table[2].startswith("  └ QuotaExceeded: ")
        assert len(table) <= 2 + 3 + 1
        assert "became leader" in text[: text.index(WIDE_HEAD)]
        shown.press(b"\x03")
        assert shown.to_the_end() == 0
    assert shown.screen.colours == set()


def test_the_table_follows_the_terminals_size(tmp_path: Path) -> None:
    """After resizing: one table that fits the terminal; it stays after Ctrl-C."""
    kubeconfig = tmp_path / "kubeconfig"
    with on_screen(tmp_path, "try", "--speed", "200", "--kubeconfig", str(kubeconfig)) as shown:
        shown.until(lambda text: "no NodeClaims" in text)
        kubectl(kubeconfig, "apply", "-f", str(WORKSPACE))
        shown.until(lambda text: row_of(text)[2:3] == ["Ready"])
        shown.resize(40, 30)
        text = shown.until(lambda text: row_of(text)[1:2] == ["Ready"])
        assert len(row_of(text)) == 3
        assert "  export KUBECONFIG=" in text
        shown.resize(160, 40)
        # Ctrl-C discards what the terminal has not shown yet, so that the redraw must be complete before it.
        text = shown.until(lambda text: "faster than real time.\n" in text and row_of(text)[-1:] == ["True"])
        assert "STATUS" in text
        assert row_of(text)[1:3] == ["Standard_NC24ads_A100_v4", "Ready"]
        assert "Traceback" not in text
        shown.press(b"\x03")
        assert shown.to_the_end() == 0
    assert shown.screen.text.count("CLAIM  ") == 1
    assert shown.screen.text.endswith("\n\nstopped; nothing is left running\n")
    assert shown.raw.rindex("\x1b[?25h") > shown.raw.rfind("\x1b[?25l")
    assert not kubeconfig.exists()


@pytest.mark.parametrize("how", [{"TERM": "dumb"}, {}], ids=["dumb", "lines"])
def test_lines_on_a_terminal(how: dict[str, Any], tmp_path: Path) -> None:
    """With TERM=dumb or -o lines nothing is redrawn."""
    arguments = ("try", "--fail", "quota", *(() if how else ("-o", "lines")), "--kubeconfig", str(tmp_path / "k"))
    with on_screen(tmp_path, *arguments, **how) as shown:
        text = shown.until(lambda text: "Ctrl-C stops" in text)
        assert "no NodeClaims" not in text
        shown.press(b"\x03")
        assert shown.to_the_end() == 0
    assert "\x1b[2K" not in shown.raw
    assert shown.screen.text.endswith("stopped; nothing is left running\n")


def test_json_output(tmp_path: Path) -> None:
    """`-o json --once`: every line is an object, with the phases of the claim and the result."""
    arguments = ("--once", "--speed", "200", "-f", str(WORKSPACE), "--kubeconfig", str(tmp_path / "k"))
    running = ended(tmp_path, "try", "-o", "json", *arguments)
    assert (running.process.returncode, running.err) == (0, "")
    lines = [json.loads(line) for line in running.out.splitlines()]
    assert lines[0]["kind"] == "started"
    assert lines[0]["kubeconfig"] == str(tmp_path / "k")
    phases = [line["phase"] for line in lines if line["kind"] == "claim"]
    order = list(dict.fromkeys(phases))
    assert [phase for phase in ("Launching", "Ready", "InstanceTerminating", "Terminated") if phase in order] == [
        phase for phase in order if phase in {"Launching", "Ready", "InstanceTerminating", "Terminated"}
    ]
    assert phases[-1] == "Terminated"
    assert next(line["gpus_allocatable"] for line in lines if line.get("phase") == "Ready") == 1
    assert {"NodeClaim", "ARM", "Node", "AgentPool"} <= {line["source"] for line in lines if line["kind"] == "event"}
    assert lines[-1].pop("arm_lists") > 0
    assert lines[-1].pop("ready_seconds")["ws3f2a91c0d"] > 0
    assert lines[-1] == {"kind": "finished", "ok": True, "stopped": False, "missing": [], "arm_calls": 2}


@pytest.mark.parametrize("output", ["table", "lines", "json", "yaml"])
def test_a_closed_pipe_ends_the_run(output: str, tmp_path: Path) -> None:
    """`try | head -1` ends without a message."""
    command = [PROGRAM, "try", "-o", output, "--once", "--speed", "200", "--kubeconfig", str(tmp_path / "k")]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 143
