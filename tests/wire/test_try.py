"""`gpu-provisioner try` as people meet it: the installed program, the real kubectl, a terminal, signals."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from .conftest import FAILING
from .program import BIN, ROOT, Running, ended, environment, kubectl, started

pytestmark = pytest.mark.usefixtures("unhappy", "demo")

WORKSPACE = ROOT / "examples" / "kaito-workspace.yaml"
NAME, NODE = "ws3f2a91c0d", "aks-ws3f2a91c0d-47249735-vmss000000"
# Fast enough for a test, slow enough that seconds pass between the first event and the last.
SPEED = "100"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path]]:
    """A trial that goes on over several stories, and its kubeconfig; it ends by SIGTERM, without a word too much."""
    home = tmp_path_factory.mktemp("served")
    kubeconfig = home / "kubeconfig"
    with started(home, "try", "--speed", SPEED, "--kubeconfig", str(kubeconfig)) as running:
        running.until("Ctrl-C ends it")
        yield running, kubeconfig
        assert running.end(signal.SIGTERM) == 0
        assert running.err == ""
        assert running.out.endswith("\nstopped; nothing is left running\n")


def rows(table: str) -> list[dict[str, str]]:
    """kubectl's table, a mapping a row; columns are found by where their header stands."""
    header, *lines = table.rstrip("\n").splitlines()
    starts = [(match.group(), match.start()) for match in re.finditer(r"\S+", header)]
    ends = [start for _, start in starts[1:]] + [10_000]
    return [{word: line[start:end].strip() for (word, start), end in zip(starts, ends, strict=True)} for line in lines]


def story(running: Running) -> list[str]:
    """What was told, without times: `claim who text`."""
    told = re.findall(r"^ *\d+\.\d\d s  (.*)$", running.out, re.MULTILINE)
    return [" ".join(line.split()) for line in told]


def in_order(lines: list[str], *beginnings: str) -> None:
    """Assert that lines that begin so stand in this order."""
    position = 0
    for beginning in beginnings:
        later = [at for at in range(position, len(lines)) if lines[at].startswith(beginning)]
        assert later, f"{beginning!r} does not follow in\n" + "\n".join(lines)
        position = later[0] + 1


# --- kept running ----------------------------------------------------------------------------------------------------


def test_the_printed_lines_work_as_they_are(tmp_path: Path) -> None:
    """Whoever has only the kubectl beside our Python copies five lines into a shell: Ready, gone again, all is well."""
    kubeconfig = tmp_path / "a file with spaces"
    with started(tmp_path, "try", "--speed", "1000", "--kubeconfig", str(kubeconfig)) as running:
        running.until("gpu-provisioner check\n")
        lines = [line for line in running.out.splitlines() if line.startswith("  ")]
        assert len(lines) == 5
        shell = "set -e\n" + "\n".join(lines)
        env = environment(tmp_path)
        done = subprocess.run(
            ["sh", "-c", shell], cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr + done.stdout
        assert "\nnothing is wrong" in done.stdout
        (claim,) = rows(done.stdout[done.stdout.index("NAME ") : done.stdout.rindex("\nnodeclaim")])
        age = claim.pop("AGE")
        assert re.fullmatch(r"\d+s", age)
        assert claim == {
            "NAME": NAME,
            "TYPE": "Standard_NC24ads_A100_v4",
            "CAPACITY": "on-demand",
            "ZONE": "0",
            "NODE": NODE,
            "READY": "True",
        }
        assert kubectl(kubeconfig, "get", "nodeclaims", "-o", "name") == ""
        server = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        assert running.end(signal.SIGINT) == 0
    assert running.err == ""
    assert running.out.endswith("\nstopped; nothing is left running\n")
    assert not kubeconfig.exists()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", urlsplit(server).port)) != 0


def test_kubectl_sees_a_claim_become_a_node(served: tuple[Running, Path]) -> None:
    """`get -w` shows the way up row by row, `describe` the conditions and the events, `get nodes` the machine."""
    _, kubeconfig = served
    env = environment(kubeconfig.parent, KUBECONFIG=str(kubeconfig))
    watching = ["get", "nodeclaims", "-w", "--request-timeout=50s"]
    with subprocess.Popen([str(BIN / "kubectl"), *watching], env=env, stdout=subprocess.PIPE, text=True) as watch:
        kubectl(kubeconfig, "apply", "-f", str(WORKSPACE))
        seen: list[list[str]] = []
        for line in watch.stdout or ():
            seen.append(line.split())
            if "True" in seen[-1]:
                break
        watch.send_signal(signal.SIGINT)
    waited = kubectl(kubeconfig, "wait", "nodeclaim", NAME, "--for=condition=Ready", "--timeout=20s")
    assert waited == f"nodeclaim.karpenter.sh/{NAME} condition met\n"
    # What a claim is asked for, has and says grows from row to row; Ready comes last, with all the others.
    header, *grown = [row[:-1] for row in seen]
    assert header == ["NAME", "TYPE", "CAPACITY", "ZONE", "NODE", "READY"]
    assert grown[0] in ([NAME], [NAME, "Unknown"])
    assert [len(row) for row in grown] == sorted(len(row) for row in grown)
    assert "Unknown" in grown[-2]
    assert grown[-1] == [NAME, "Standard_NC24ads_A100_v4", "on-demand", "0", NODE, "True"]

    (wide,) = rows(kubectl(kubeconfig, "get", "nodeclaims", "-o", "wide"))
    assert (wide["NODEPOOL"], wide["NODECLASS"]) == ("kaito", "default")
    assert wide["IMAGEID"].startswith("AKSUbuntu")
    assert wide["ID"].endswith("/virtualMachines/0")
    nodes = {row["NAME"]: row["STATUS"] for row in rows(kubectl(kubeconfig, "get", "nodes"))}
    assert nodes == {"aks-system-47249735-vmss000000": "Ready", NODE: "Ready"}
    assert "nvidia.com/gpu:     1" in kubectl(kubeconfig, "describe", "node", NODE)


def test_describe_tells_the_story_in_order(served: tuple[Running, Path]) -> None:
    """The four conditions are True, in the order of the way up; the events go from Creating to Initialized, as far as
    kubectl sorts them, which is by the second; `events --for` tells the same.
    """
    _, kubeconfig = served
    told = kubectl(kubeconfig, "describe", "nodeclaim", NAME)
    described, events = told.split("\nEvents:\n")
    assert re.findall(r"^    Type: +(\w+)$", described, re.MULTILINE) == [
        "Launched",
        "Registered",
        "Initialized",
        "Ready",
    ]
    assert re.findall(r"^    Status: +(\w+)$", described, re.MULTILINE) == ["True"] * 4
    lines = [line.split(maxsplit=4) for line in events.splitlines()[2:]]
    reasons = [line[1] for line in lines]
    ages = [int(line[2].removesuffix("s")) for line in lines]
    assert ages == sorted(ages, reverse=True)
    assert "Creating" in {reason for reason, age in zip(reasons, ages, strict=True) if age == ages[0]}
    assert "Initialized" in {reason for reason, age in zip(reasons, ages, strict=True) if age == ages[-1]}
    assert {"Launched", "Registered", "ResourceNotRegistered"} < set(reasons)
    assert {(line[0], line[3]) for line in lines} == {("Normal", "gpu-provisioner")}
    listed = rows(kubectl(kubeconfig, "events", "--for", f"nodeclaim/{NAME}"))
    assert sorted(row["REASON"] for row in listed) == sorted(reasons)
    (last,) = [row["MESSAGE"] for row in listed if row["REASON"] == "Initialized"]
    assert last == "the Node is Ready with 1 of 1 nvidia.com/gpu allocatable"


def test_delete_waits_until_all_is_gone_and_the_story_was_told(served: tuple[Running, Path]) -> None:
    """kubectl returns when the claim is gone; nothing of it is left; what happened stands on the terminal, in order."""
    running, kubeconfig = served
    assert kubectl(kubeconfig, "delete", "nodeclaim", NAME) == f'nodeclaim.karpenter.sh "{NAME}" deleted\n'
    assert kubectl(kubeconfig, "get", "nodeclaims", "-o", "name") == ""
    assert kubectl(kubeconfig, "get", "nodes", "-o", "name") == "node/aks-system-47249735-vmss000000\n"
    running.until("left of it")
    lines = story(running)
    assert all(line.startswith(f"{NAME} ") for line in lines)
    in_order(
        [line.removeprefix(f"{NAME} ") for line in lines],
        "NodeClaim created, asks for Standard_NC24ads_A100_v4",
        "ARM PUT agent pool -> 201 Created",
        "NodeClaim Launched = Unknown: Creating since",
        f"Node {NODE} appears",
        "NodeClaim Launched = True",
        "NodeClaim Registered = True",
        "NodeClaim Initialized = Unknown (NodeNotReady): ",
        "Node Ready = True",
        "NodeClaim Initialized = Unknown (ResourceNotRegistered): nvidia.com/gpu: 0 of 1",
        "Node nvidia.com/gpu allocatable: 1",
        "NodeClaim Initialized = True",
        "NodeClaim Ready = True",
        "NodeClaim is being deleted",
        "AgentPool is being deleted",
        "AgentPool is gone",
        "ARM GET agent pool -> 404 Not Found",
        "Node is gone",
        "NodeClaim is gone; left of it: 0 agent pools, 0 Nodes",
    )
    assert "LIST" not in running.out


def test_a_claim_without_quota_says_so_until_it_is_deleted(tmp_path: Path) -> None:
    """`--fail quota`, kept running: it is announced, the claim tells cause and remedy, and deleting it ends it."""
    kubeconfig = tmp_path / "kubeconfig"
    with started(tmp_path, "try", "--fail", "quota", "--kubeconfig", str(kubeconfig)) as running:
        running.until("Ctrl-C ends it")
        assert "What goes wrong: the subscription has no cores left" in running.out
        assert "never gets Ready. Deleting it ends it" in running.out
        kubectl(kubeconfig, "apply", "-f", str(WORKSPACE))
        kubectl(kubeconfig, "wait", "nodeclaim", NAME, "--for=condition=Launched=false", "--timeout=20s")
        (claim,) = rows(kubectl(kubeconfig, "get", "nodeclaims"))
        assert (claim["READY"], claim["NODE"]) == ("False", "")
        running.until("NodeClaim Launched = False (QuotaExceeded)")
        told = kubectl(kubeconfig, "describe", "nodeclaim", NAME)
        assert re.search(r"Warning +QuotaExceeded .*cores quota in westeurope.*az vm list-usage", told)
        kubectl(kubeconfig, "delete", "nodeclaim", NAME)
        running.until("NodeClaim is gone; left of it: 0 agent pools, 0 Nodes")
        assert running.end(signal.SIGTERM) == 0
    # The event says what the condition has said: it is not told twice.
    assert sum("QuotaExceeded" in line for line in story(running)) == 1


# --- once ------------------------------------------------------------------------------------------------------------


def test_a_file_of_somebody_elses_is_not_overwritten(tmp_path: Path) -> None:
    """Least of all a kubeconfig to a real cluster: exit 2, a line for the cause and one for the remedy."""
    theirs = tmp_path / "config"
    theirs.write_text("apiVersion: v1\nkind: Config\ncurrent-context: production\n")
    before = theirs.read_bytes()
    running = ended(tmp_path, "try", "--kubeconfig", str(theirs))
    assert (running.process.returncode, running.out) == (2, "")
    assert running.err == (
        f"gpu-provisioner try: {theirs} is there and is not a trial's\n    Name another file with --kubeconfig.\n"
    )
    assert theirs.read_bytes() == before


def test_a_kubeconfig_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A folder that is not there."""
    running = ended(tmp_path, "try", "--kubeconfig", str(tmp_path / "nowhere" / "config"))
    assert (running.process.returncode, running.out) == (2, "")
    assert running.err.splitlines() == [
        f"gpu-provisioner try: cannot write {tmp_path}/nowhere/config: no such file or directory",
        "    Name another file with --kubeconfig.",
    ]


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    """And so is the flag for another."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        running = ended(tmp_path, "try", "--port", str(port))
    assert running.process.returncode == 2
    assert running.err == (
        f"gpu-provisioner try: port {port} of 127.0.0.1 is taken\n"
        "    Name another with --port, or leave it out to have any free one.\n"
    )


def test_once_fails_if_the_api_server_refuses_a_claim(tmp_path: Path) -> None:
    """Exit 1, in the API server's own words."""
    claim = yaml.safe_load(WORKSPACE.read_text())
    claim["metadata"]["name"] = "Not_A_Name"
    path = tmp_path / "claim.yaml"
    path.write_text(yaml.safe_dump(claim))
    running = ended(tmp_path, "try", "--once", "-f", str(path))
    assert running.process.returncode == 1
    assert "It did not go as it should:\n" in running.out
    assert "422" in running.out
    assert 'Invalid value: "Not_A_Name"' in running.out
    assert running.err == ""


def test_a_failure_that_does_not_happen_is_no_success(tmp_path: Path) -> None:
    """If nothing goes wrong although it was announced, `--once` says what it has not seen, and exits 1."""
    script = (
        "import sys; from provisioner.cli.main import run_command; from provisioner.trial import causes, playing\n"
        "playing.OWN_PATIENCE_SECONDS, playing.AZURE_PATIENCE_SECONDS = 3.0, 0.0\n"
        "causes.CAUSES.update(dict.fromkeys(causes.CAUSES, lambda world: None))\n"
        "sys.exit(run_command(['try', *sys.argv[1:]], {}, sys.stdout, sys.stderr))\n"
    )

    def undisturbed(fail: str) -> subprocess.Popen[str]:
        arguments = ["--once", "--fail", fail, "--speed", "100", "--kubeconfig", str(tmp_path / fail)]
        return subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            cwd=ROOT,
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            text=True,
        )

    for fail, process in {fail: undisturbed(fail) for fail in ("quota", "slow-gpu")}.items():
        with process:
            shown = process.communicate(timeout=60)[0]
        assert process.returncode == 1, f"{fail}\n{shown}"
        assert re.search(rf"It did not go as it should:\n  {NAME}: \w+ does not say \w+\n$", shown), shown


# --- what takes long: begun first, read last -------------------------------------------------------------------------


@pytest.mark.parametrize("fail", FAILING)
def test_each_unhappy_story_is_told_and_ends_as_announced(fail: str, unhappy: dict[str, Running]) -> None:
    """`--once --fail …`: announced, seen on the claim, and over as announced, with nothing left and exit 0."""
    running = unhappy[fail]
    assert running.end(within_seconds=60.0) == 0, running.out
    assert running.err == ""
    assert "\nWhat goes wrong: " in running.out
    assert "Left of them: agent pools 0, Nodes 0, NodeClaims 0" in running.out
    lines = [line.removeprefix(f"{NAME} ") for line in story(running)]
    seen = {
        "capacity": (
            "AgentPool failed",
            "NodeClaim Launched = False: AllocationFailed: ",
            "AgentPool is gone",
            "ARM PUT agent pool -> 201 Created",
            "NodeClaim Ready = True",
            "NodeClaim is gone",
        ),
        "quota": (
            "ARM PUT agent pool -> 400 Bad Request",
            "NodeClaim Launched = False (QuotaExceeded): ",
            "NodeClaim is gone",
        ),
        "slow-gpu": (
            "Node Ready = True",
            "NodeClaim Initialized = Unknown (ResourceNotRegistered): nvidia.com/gpu: 0 of 1",
            "AgentPool is running",
            "Node nvidia.com/gpu allocatable: 1",
            "NodeClaim Ready = True",
            "NodeClaim is gone",
        ),
        "throttle": (
            "ARM PUT agent pool -> 429 Too Many Requests",
            "NodeClaim Launched = Unknown: Throttled: ",
            "ARM PUT agent pool -> 429 Too Many Requests",
            "ARM PUT agent pool -> 429 Too Many Requests",
            "ARM PUT agent pool -> 201 Created",
            "NodeClaim Ready = True",
            "NodeClaim is gone",
        ),
    }
    in_order(lines, *seen[fail])
    verdict = "said QuotaExceeded, got no machine, and went" if fail == "quota" else "became a Ready node all the same"
    assert verdict in running.out
    assert ("NodeClaim Ready = True" in lines) is (fail != "quota")


def test_the_demo_is_told_and_proved(demo: Running) -> None:
    """What `make demo` shows, with the log asked for: three claims with three calls to ARM each, exit 0, plain text."""
    assert demo.end(within_seconds=60.0) == 0, demo.out
    assert re.search(
        r"\n3 claims became Ready nodes and went again, in the order instance, Node, NodeClaim\.\n"
        r"Left of them: agent pools 0, Nodes 0, NodeClaims 0 \(asked of ARM and of the API server\)\.\n"
        r"ARM calls: 3 a claim; shared LISTs: \d\.\n$",
        demo.out,
    ), demo.out
    assert "\x1b" not in demo.out
    log = [json.loads(line) for line in demo.err.splitlines()]
    assert {entry["key"] for entry in log if "reconcileID" in entry} == {NAME, "firstgpu", "a100multi"}
    assert {entry["level"] for entry in log} == {"INFO"}


def test_a_fault_plan_is_carried_out(tmp_path: Path) -> None:
    """Two refusals by ARM from a file: the claim says so, and gets its machine all the same."""
    plan = tmp_path / "plan.yaml"
    plan.write_text("- {verb: PUT, times: 2, arm_throttled_seconds: 2}\n")
    claim = ("-f", str(ROOT / "examples" / "first-gpu.yaml"))
    with started(tmp_path, "try", "--once", "--speed", SPEED, "--faults", str(plan), *claim) as running:
        assert running.end(within_seconds=120.0) == 0, running.out
        told = "\n".join(story(running))
    assert told.count("429 Too Many Requests") == 2, told
    assert "Launched = Unknown (SubscriptionThrottled): SubscriptionRequestsThrottled: " in told, told
