"""The parts of `try` that need no world: its flags and files, its words, its looks."""

import io
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from provisioner.cli.main import run_command
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.trial import guide
from provisioner.trial.causes import CAUSES
from provisioner.trial.changes import claim_words, node_words
from provisioner.trial.claims import examples, read_claims
from provisioner.trial.failures import FAILURES
from provisioner.trial.printing import Line
from provisioner.trial.script import after_failed_attempts
from provisioner.trial.showing import show_for
from provisioner.trial.shows import Opening

Json = dict[str, Any]
ROOT = Path(__file__).parents[3]


def told(obj: Json, old: Json | None, event: str = "MODIFIED") -> list[str]:
    return [text for text, _ in claim_words(event, obj, old)]


def claim(*conditions: tuple[str, str, str, str], **metadata: Any) -> Json:
    said = [
        {"type": kind, "status": status, "reason": reason, "message": message}
        for kind, status, reason, message in conditions
    ]
    requirements = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["S1", "S2"]}]
    return {
        "metadata": {"name": "c", **metadata},
        "spec": {"requirements": requirements},
        "status": {"conditions": said},
    }


# --- flags and files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (("--speed", "fast"), "'fast' is not a speed: use 1 (real time) to 1000"),
        (("--speed", "0.5"), "'0.5' is not a speed"),
        (("--speed", "nan"), "'nan' is not a speed"),
        (("--port", "70000"), "'70000' is not a port: use 1 to 65535"),
        (("--port", "https"), "'https' is not a port"),
        (("--fail", "nothing"), "invalid choice: 'nothing' (choose from"),
        (("--fail", "quota", "--faults", "plan.yaml"), "--faults: not allowed with argument --fail"),
        (("--bogus",), "unrecognized arguments: --bogus"),
    ],
)
def test_a_wrong_flag_is_named(arguments: tuple[str, ...], cause: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2; one line for the cause, one for the remedy."""
    assert run_command(["try", *arguments], {}, sys.stdout, sys.stderr) == 2
    out, err = capsys.readouterr()
    assert out == ""
    found, remedy = err.splitlines()
    assert found.startswith("gpu-provisioner try: ")
    assert cause in found
    assert remedy == "    See gpu-provisioner try --help." or "--bogus" in arguments


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (None, "no such file or directory"),
        ("a: [b", "it is no YAML (line 1: expected ',' or ']'"),
        ("\x00", "it is no YAML"),
        ("- 1\n", "there is no NodeClaim in it"),
        ("kind: Pod\n---\n---\n1\n", "there is no NodeClaim in it"),
        ("kind: NodeClaim\n", "a NodeClaim in it has no name or no spec"),
        ("kind: NodeClaim\nmetadata: {name: 5}\nspec: {}\n", "a NodeClaim in it has no name or no spec"),
        ("kind: NodeClaim\nmetadata: {name: a}\nspec: {}\n---\n" * 2, "the name a is given twice"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str | None, cause: str) -> None:
    """Exit 2: the file and the cause on one line, the remedy on the next."""
    path = tmp_path / "claims.yaml"
    if text is not None:
        path.write_text(text)
    out, err = io.StringIO(), io.StringIO()
    assert run_command(["try", "--once", "-f", str(path)], {}, out, err) == 2
    first, remedy = err.getvalue().splitlines()
    assert first.startswith(f"gpu-provisioner try: {path}: {cause}")
    assert remedy.startswith("    ")
    assert out.getvalue() == ""


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """Nor is a file that nobody can read as text."""
    err = io.StringIO()
    assert run_command(["try", "-f", str(tmp_path)], {}, io.StringIO(), err) == 2
    assert f"{tmp_path}: is a directory" in err.getvalue()
    (tmp_path / "latin").write_bytes(b"\xff\xfe\xff")
    assert run_command(["try", "-f", str(tmp_path / "latin")], {}, io.StringIO(), err) == 2
    assert "latin: it is no YAML" in err.getvalue()


def test_the_demo_plays_the_examples() -> None:
    """KAITO's own claim first."""
    assert [claim["metadata"]["name"] for claim in read_claims(examples())] == ["ws3f2a91c0d", "firstgpu", "a100multi"]


def test_every_failure_that_is_offered_can_be_arranged() -> None:
    """And no other."""
    assert sorted(CAUSES) == sorted(FAILURES)


# --- the words -------------------------------------------------------------------------------------------------------


def test_a_condition_is_told_when_it_says_something_new() -> None:
    """By status, reason or message, in the order of the way up; a reason that begins the message is not doubled."""
    before = claim(("Launched", "Unknown", "Creating", "Creating since 9"))
    after = claim(
        ("Initialized", "Unknown", "NodeNotReady", "the Node is new"),
        ("Launched", "False", "AllocationFailed", "AllocationFailed: none free"),
        ("Registered", "True", "Registered", ""),
    )
    assert told(after, before) == [
        "Launched = False: AllocationFailed: none free",
        "Registered = True",
        "Initialized = Unknown (NodeNotReady): the Node is new",
    ]
    assert told(after, after) == []


def test_what_only_repeats_is_left_out() -> None:
    """Conditions nobody has looked at, and a Ready that sums up the others; Ready won or lost is told."""
    fresh = claim(("Launched", "Unknown", "AwaitingReconciliation", "object is awaiting reconciliation"))
    assert told(fresh, None, "ADDED") == ["created, asks for S1, S2"]
    short = claim(("Ready", "False", "UnhealthyDependents", "Launched=False"))
    assert told(short, fresh) == []
    ready = claim(("Ready", "True", "Ready", ""))
    assert told(ready, short) == ["Ready = True"]
    assert told(short, ready) == ["Ready = False (UnhealthyDependents): Launched=False"]


def test_a_deletion_is_told_once() -> None:
    """When it is asked for; later changes of the same claim do not repeat it."""
    going = claim(deletionTimestamp="2026-03-01T12:00:00Z")
    assert told(going, claim()) == ["is being deleted"]
    assert told(going, going) == []


def test_a_node_is_told_by_what_people_wait_for() -> None:
    """It appears, is Ready, shows its GPUs, stops answering, goes; a new Node that is not yet Ready is no news."""

    def node(ready: str, gpus: str = "") -> Json:
        status = {"conditions": [{"type": "Ready", "status": ready}], "allocatable": {"nvidia.com/gpu": gpus or "0"}}
        return {"metadata": {"name": "n"}, "status": status}

    def words(event: str, obj: Json, old: Json | None) -> list[str]:
        return [text for text, _ in node_words(event, obj, old)]

    assert words("ADDED", node("False"), None) == ["n appears"]
    assert words("MODIFIED", node("True"), node("False")) == ["Ready = True"]
    assert words("MODIFIED", node("True", "4"), node("True")) == ["nvidia.com/gpu allocatable: 4"]
    assert words("MODIFIED", node("Unknown", "4"), node("True", "4")) == ["Ready = Unknown"]
    assert words("DELETED", node("Unknown", "4"), node("Unknown", "4")) == ["is gone"]


def commands(path: str, monkeypatch: pytest.MonkeyPatch, files: Sequence[Path] = (Path("c.yaml"),)) -> str:
    monkeypatch.setenv("PATH", path)
    return guide.commands(Path("k"), files, ["a", "b"], None)


def test_the_lines_to_copy_use_the_kubectl_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One on the PATH, else the one beside our Python, else it is said where to get one."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    monkeypatch.chdir(tmp_path)
    without = commands("/nowhere", monkeypatch)
    assert without.startswith("kubectl is not on your PATH; get it from https://kubernetes.io/")
    assert "\n  kubectl apply -f c.yaml\n" in without
    (tmp_path / "venv").mkdir()
    tool = tmp_path / "venv" / "kubectl"
    tool.touch(mode=0o700)
    assert "\n  venv/kubectl delete nodeclaim a b\n" in commands("/nowhere", monkeypatch)
    on_path = commands(str(tool.parent), monkeypatch)
    assert on_path.startswith("In another terminal:\n  export KUBECONFIG=k\n  kubectl apply ")


def test_paths_are_typed_as_a_shell_needs_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative where that is shorter, quoted where a shell would split them."""
    monkeypatch.chdir(tmp_path)
    text = commands("/nowhere", monkeypatch, [tmp_path / "my claims.yaml", Path("/etc/claim.yaml")])
    assert "kubectl apply -f 'my claims.yaml' -f /etc/claim.yaml\n" in text


@pytest.mark.parametrize("fail", sorted(FAILURES))
def test_each_failure_is_announced_with_what_will_be_seen(fail: str) -> None:
    """What the claim says, and in whole sentences."""
    failure = FAILURES[fail]
    words = guide.announcement(failure)
    assert failure.reason in words
    assert words.startswith("What goes wrong: ")
    assert words.endswith(".")


def test_the_verdict_says_what_was_seen() -> None:
    """One claim or many, all well or not."""
    assert guide.verdict(3, None, calls=9, lists=2).splitlines() == [
        "3 claims became Ready nodes and went again, in the order instance, Node, NodeClaim.",
        "Left of them: agent pools 0, Nodes 0, NodeClaims 0 (asked of ARM and of the API server).",
        "ARM calls: 3 a claim; shared LISTs: 2.",
    ]
    assert guide.verdict(1, FAILURES["throttle"], calls=6, lists=1).splitlines()[:2] == [
        "1 claim became a Ready node all the same and went again, in the order instance, Node, NodeClaim.",
        "It said Throttled while it was so.",
    ]
    assert guide.verdict(2, FAILURES["quota"], calls=6, lists=1).startswith(
        "2 claims said QuotaExceeded, got no machine"
    )


# --- the looks -------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(out: io.StringIO, monkeypatch: pytest.MonkeyPatch, **env: str) -> str:
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "80", **env}.items():
        monkeypatch.setenv(name, value)
    show, _ = show_for("lines", out, sys.stderr)
    show.begun(Opening(told="prose " * 20, announced="", to_copy="kubectl " * 20, kubeconfig="", api_server="", arm=""))
    show.line(
        Line(at=1.5, claim="ws1", who="NodeClaim", text="[red]words " * 12 + "/a/long/path-with-dashes", tone="bad")
    )
    return out.getvalue()


def test_a_terminal_has_colours_and_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long texts go on under their own column, prose is wrapped, what is to be copied is not; markup is only text."""
    shown = printed(Terminal(), monkeypatch)
    assert "\x1b[31m" in shown
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    lines.remove("kubectl " * 20)
    assert max(map(len, lines)) <= 80
    first = next(at for at, line in enumerate(lines) if line.startswith("   1.50 s  ws1          NodeClaim [red]words"))
    assert lines[first + 1].startswith(" " * 34 + "[red]words")


def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its value; the columns stay."""
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", printed(Terminal(), monkeypatch, NO_COLOR="1"))


def test_a_pipe_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thing a line, however long, and no escape sequence."""
    shown = printed(io.StringIO(), monkeypatch)
    assert "\x1b" not in shown
    assert len([line for line in shown.splitlines() if line]) == 3


@pytest.mark.parametrize("output", ["lines", "json"])
def test_only_a_terminal_needs_rich(output: str) -> None:
    """A pipe is served without it."""
    script = (
        "import io, sys; sys.modules['rich'] = None\n"
        "from provisioner.trial.showing import show_for\n"
        f"show_for({output!r}, io.StringIO(), sys.stderr)[0].stopped()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (None, "plan.yaml: no such file or directory"),
        ("- {verb: PUT}\n- {verb: POST, drop: after}", "plan.yaml: rule 1: it does nothing;"),
        ("PUT", "plan.yaml: a fault plan is a list of rules"),
    ],
)
def test_a_fault_plan_that_cannot_be_used_is_named(
    plan: str | None, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2: every mistake with its rule, and what a rule looks like; nothing was started."""
    path = tmp_path / "plan.yaml"
    if plan is not None:
        path.write_text(plan)
    assert run_command(["try", "--faults", str(path)], {}, sys.stdout, sys.stderr) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err
    if plan is not None and "\n" in plan:
        assert "\n    rule 2: Invalid enum value 'POST' - at `$.verb`\n" in err
        assert "throttled_seconds: 30}" in err.splitlines()[-1]


def test_check_can_be_copied_too() -> None:
    """One line for a shell: where this Azure is, and which cluster is meant."""
    told, line = guide.checking("http://127.0.0.1:1", AzureSettings(resource_group="a group")).splitlines()
    assert told.endswith("gpu-provisioner check sees it:")
    words = shlex.split(line)
    assert words[0] == "ARM_ENDPOINT=http://127.0.0.1:1"
    assert "ARM_RESOURCE_GROUP=a group" in words
    assert words[-1] == "check"


@pytest.mark.parametrize(
    ("order", "fine"),
    [
        ("pool node claim", True),
        ("pool pool node claim", True),
        ("pool node pool node claim", True),
        ("pool claim", True),
        ("claim", True),
        ("node pool claim", False),
        ("pool claim node", False),
        ("pool node node claim", False),
        ("pool node", False),
        ("", False),
    ],
)
def test_under_a_fault_plan_failed_attempts_go_first(order: str, fine: bool) -> None:
    """Each failed pool goes with its Node before the next is made; at the end it is the order of every removal."""
    assert after_failed_attempts(order.split()) is fine
