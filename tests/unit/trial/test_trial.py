"""The parts of `try` that need no world: flags, files, messages and outputs."""

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
from provisioner.cli.parser import parse
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.trial import messages
from provisioner.trial.command import conflict
from provisioner.trial.diff import claim_changes, node_changes
from provisioner.trial.end_to_end import is_order_with_retries
from provisioner.trial.manifests import examples, read_claims
from provisioner.trial.output.renderer import LogLine, Started
from provisioner.trial.output.select import select_renderer
from provisioner.trial.scenarios import SCENARIOS

Json = dict[str, Any]
ROOT = Path(__file__).parents[3]


def texts(obj: Json, old: Json | None, event: str = "MODIFIED") -> list[str]:
    return [text for text, _ in claim_changes(event, obj, old)]


def claim(*conditions: tuple[str, str, str, str], **metadata: Any) -> Json:
    found = [
        {"type": kind, "status": status, "reason": reason, "message": message}
        for kind, status, reason, message in conditions
    ]
    requirements = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["S1", "S2"]}]
    return {
        "metadata": {"name": "c", **metadata},
        "spec": {"requirements": requirements},
        "status": {"conditions": found},
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
        (
            ("--pods", "--once", "--fail", "quota"),
            "not allowed with --once and --fail quota, with which its pods never run",
        ),
        (("--pods", "-f", "claim.yaml"), "--pods: not allowed with -f"),
        (("--bogus",), "unrecognized arguments: --bogus"),
    ],
)
def test_an_invalid_flag_is_named(arguments: tuple[str, ...], cause: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2; one line for the cause, one for the remedy."""
    assert run_command(["try", *arguments], {}, sys.stdout, sys.stderr) == 2
    out, err = capsys.readouterr()
    assert out == ""
    found, remedy = err.splitlines()
    assert found.startswith("gpu-provisioner try: ")
    assert cause in found
    assert remedy == "    See gpu-provisioner try --help." or "--bogus" in arguments


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_pods_can_be_run_with_each_failure(scenario: str) -> None:
    """To the end only with those after which a machine runs."""
    words = ["try", "--pods", "--fail", scenario]
    assert conflict(parse(words).arguments) == ""
    assert bool(conflict(parse([*words, "--once"]).arguments)) is not SCENARIOS[scenario].recovers


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (None, "no such file or directory"),
        ("a: [b", "invalid YAML (line 1: expected ',' or ']'"),
        ("\x00", "invalid YAML"),
        ("- 1\n", "contains no NodeClaim"),
        ("kind: Pod\n---\n---\n1\n", "contains no NodeClaim"),
        ("kind: NodeClaim\n", "contains a NodeClaim without name or spec"),
        ("kind: NodeClaim\nmetadata: {name: 5}\nspec: {}\n", "contains a NodeClaim without name or spec"),
        ("kind: NodeClaim\nmetadata: {name: a}\nspec: {}\n---\n" * 2, "duplicate NodeClaim name a"),
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
    """Nor is a binary file."""
    err = io.StringIO()
    assert run_command(["try", "-f", str(tmp_path)], {}, io.StringIO(), err) == 2
    assert f"{tmp_path}: is a directory" in err.getvalue()
    (tmp_path / "latin").write_bytes(b"\xff\xfe\xff")
    assert run_command(["try", "-f", str(tmp_path / "latin")], {}, io.StringIO(), err) == 2
    assert "latin: invalid YAML" in err.getvalue()


def test_the_demo_uses_the_examples() -> None:
    """KAITO's own claim first."""
    assert [claim["metadata"]["name"] for claim in read_claims(examples())] == ["ws3f2a91c0d", "firstgpu", "a100multi"]


# --- messages --------------------------------------------------------------------------------------------------------


def test_a_condition_is_described_when_it_changed() -> None:
    """Status, reason or message, in the order of a launch; a reason that begins the message is not repeated."""
    before = claim(("Launched", "Unknown", "Creating", "Creating since 9"))
    after = claim(
        ("Initialized", "Unknown", "NodeNotReady", "the Node is new"),
        ("Launched", "False", "AllocationFailed", "AllocationFailed: none free"),
        ("Registered", "True", "Registered", ""),
    )
    assert texts(after, before) == [
        "Launched = False: AllocationFailed: none free",
        "Registered = True",
        "Initialized = Unknown (NodeNotReady): the Node is new",
    ]
    assert texts(after, after) == []


def test_repetitions_are_left_out() -> None:
    """Conditions not evaluated yet, and a Ready that summarizes the others; changes from and to True are described."""
    fresh = claim(("Launched", "Unknown", "AwaitingReconciliation", "object is awaiting reconciliation"))
    assert texts(fresh, None, "ADDED") == ["created, requests S1, S2"]
    short = claim(("Ready", "False", "UnhealthyDependents", "Launched=False"))
    assert texts(short, fresh) == []
    ready = claim(("Ready", "True", "Ready", ""))
    assert texts(ready, short) == ["Ready = True"]
    assert texts(short, ready) == ["Ready = False (UnhealthyDependents): Launched=False"]


def test_a_deletion_is_described_once() -> None:
    """When it is requested; later changes of the claim do not repeat it."""
    going = claim(deletionTimestamp="2026-03-01T12:00:00Z")
    assert texts(going, claim()) == ["is being deleted"]
    assert texts(going, going) == []


def test_changes_of_a_node() -> None:
    """Creation, readiness, GPUs and deletion; that a new Node is not Ready is not described."""

    def node(ready: str, gpus: str = "") -> Json:
        status = {"conditions": [{"type": "Ready", "status": ready}], "allocatable": {"nvidia.com/gpu": gpus or "0"}}
        return {"metadata": {"name": "n"}, "status": status}

    def words(event: str, obj: Json, old: Json | None) -> list[str]:
        return [text for text, _ in node_changes(event, obj, old)]

    assert words("ADDED", node("False"), None) == ["n created"]
    assert words("MODIFIED", node("True"), node("False")) == ["Ready = True"]
    assert words("MODIFIED", node("True", "4"), node("True")) == ["nvidia.com/gpu allocatable: 4"]
    assert words("MODIFIED", node("Unknown", "4"), node("True", "4")) == ["Ready = Unknown"]
    assert words("DELETED", node("Unknown", "4"), node("Unknown", "4")) == ["deleted"]


def commands(path: str, monkeypatch: pytest.MonkeyPatch, files: Sequence[Path] = (Path("c.yaml"),)) -> str:
    monkeypatch.setenv("PATH", path)
    return messages.commands(Path("k"), files, ["a", "b"], None)


def test_the_commands_use_the_installed_kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the PATH, else from beside the Python interpreter, else with a hint how to install it."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    monkeypatch.chdir(tmp_path)
    without = commands("/nowhere", monkeypatch)
    assert without.startswith("kubectl is not on your PATH; install it from https://kubernetes.io/")
    assert "\n  kubectl apply -f c.yaml\n" in without
    (tmp_path / "venv").mkdir()
    tool = tmp_path / "venv" / "kubectl"
    tool.touch(mode=0o700)
    assert "\n  venv/kubectl delete nodeclaim a b\n" in commands("/nowhere", monkeypatch)
    on_path = commands(str(tool.parent), monkeypatch)
    assert on_path.startswith("In another terminal:\n  export KUBECONFIG=k\n  kubectl apply ")


def test_paths_are_quoted_for_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative if below the current directory."""
    monkeypatch.chdir(tmp_path)
    text = commands("/nowhere", monkeypatch, [tmp_path / "my claims.yaml", Path("/etc/claim.yaml")])
    assert "kubectl apply -f 'my claims.yaml' -f /etc/claim.yaml\n" in text


@pytest.mark.parametrize("fail", sorted(SCENARIOS))
def test_each_scenario_states_its_expected_effect(fail: str) -> None:
    """With the reason on the claim."""
    scenario = SCENARIOS[fail]
    text = messages.injected(scenario)
    assert scenario.reason in text
    assert text.startswith("Injected failure: ")
    assert text.endswith(".")


def test_the_result_of_a_run() -> None:
    """With one claim or several, with and without a failure."""
    assert messages.result(3, None, calls=9, lists=2).splitlines() == [
        "3 NodeClaims became Ready and were deleted in the order instance, Node, NodeClaim.",
        "Remaining: 0 agent pools, 0 Nodes, 0 NodeClaims (listed from ARM and the API server).",
        "ARM requests: 3 per claim, and 2 shared LISTs.",
    ]
    assert messages.result(1, SCENARIOS["throttle"], calls=6, lists=1).splitlines()[:2] == [
        "1 NodeClaim became Ready despite the failure and was deleted in the order instance, Node, NodeClaim.",
        "It reported Throttled before.",
    ]
    assert messages.result(2, SCENARIOS["quota"], calls=6, lists=1).startswith(
        "2 NodeClaims reported QuotaExceeded, got no instance"
    )


# --- outputs ---------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(out: io.StringIO, monkeypatch: pytest.MonkeyPatch, **env: str) -> str:
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "80", **env}.items():
        monkeypatch.setenv(name, value)
    renderer, _ = select_renderer("lines", out, sys.stderr)
    renderer.started(
        Started(
            text="prose " * 20, scenario="", commands="kubectl " * 20, kubeconfig="", api_server="", arm="", metrics=""
        )
    )
    text = "[red]words " * 12 + "/a/long/path-with-dashes"
    renderer.line(LogLine(at=1.5, claim="ws1", source="NodeClaim", text=text, style="error"))
    return out.getvalue()


def test_a_terminal_has_colours_and_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text is wrapped under its column, prose is wrapped, commands are not; markup is not interpreted."""
    shown = printed(Terminal(), monkeypatch)
    assert "\x1b[31m" in shown
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    lines.remove("kubectl " * 20)
    assert max(map(len, lines)) <= 80
    first = next(at for at, line in enumerate(lines) if line.startswith("   1.50 s  ws1          NodeClaim [red]words"))
    assert lines[first + 1].startswith(" " * 34 + "[red]words")


def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With any value; the columns stay."""
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", printed(Terminal(), monkeypatch, NO_COLOR="1"))


def test_a_pipe_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line per event, without escape sequences."""
    shown = printed(io.StringIO(), monkeypatch)
    assert "\x1b" not in shown
    assert len([line for line in shown.splitlines() if line]) == 3


@pytest.mark.parametrize("output", ["table", "lines", "json", "yaml"])
def test_only_a_terminal_needs_rich(output: str) -> None:
    """A pipe needs no library of terminals."""
    script = (
        "import io, sys; sys.modules['rich'] = None\n"
        "from provisioner.trial.output.select import select_renderer\n"
        f"select_renderer({output!r}, io.StringIO(), sys.stderr)[0].stopped()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("plan", "error"),
    [
        (None, "plan.yaml: no such file or directory"),
        ("- {verb: PUT}\n- {verb: POST, drop: after}", "plan.yaml: rule 1: the rule has no effect;"),
        ("PUT", "plan.yaml: a fault plan is a list of rules"),
    ],
)
def test_a_fault_plan_that_cannot_be_used_is_named(
    plan: str | None, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2: every mistake with its rule, and an example of a rule; nothing is started."""
    path = tmp_path / "plan.yaml"
    if plan is not None:
        path.write_text(plan)
    assert run_command(["try", "--faults", str(path)], {}, sys.stdout, sys.stderr) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert error in err
    if plan is not None and "\n" in plan:
        assert "\n    rule 2: Invalid enum value 'POST' - at `$.verb`\n" in err
        assert "throttled_seconds: 30}" in err.splitlines()[-1]


def test_check_can_be_copied_too() -> None:
    """One line for a shell, with the endpoints and the cluster."""
    text, line = messages.check_command("http://127.0.0.1:1", AzureSettings(resource_group="a group")).splitlines()
    assert text.endswith("as before an installation:")
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
def test_under_a_fault_plan_failed_attempts_are_deleted_first(order: str, fine: bool) -> None:
    """Each failed pool is deleted with its Node before the next attempt; the last one in the usual order."""
    assert is_order_with_retries(order.split()) is fine
