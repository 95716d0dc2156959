"""`gpu-provisioner try`: the installed program with the real kubectl, and its signals."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import urlsplit

import pytest
import yaml

from .conftest import FAILING
from .program import BIN, ROOT, RunningProgram, ended, environment, kubectl, started

pytestmark = [pytest.mark.usefixtures("failing", "demo"), pytest.mark.matrix(quick=0)]

WORKSPACE = ROOT / "examples" / "kaito-workspace.yaml"
CRD = "nodeclaims.karpenter.sh"
NAME, NODE = "ws3f2a91c0d", "aks-ws3f2a91c0d-47249735-vmss000000"
# Fast enough for a test, slow enough that seconds pass between the first event and the last.
SPEED = "100"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[RunningProgram, Path]]:
    """A running trial and its kubeconfig; SIGTERM stops it, with nothing on stderr."""
    kubeconfig = tmp_path / "kubeconfig"
    with started(tmp_path, "try", "--speed", SPEED, "--kubeconfig", str(kubeconfig)) as running:
        running.until("Ctrl-C stops")
        yield running, kubeconfig
        assert running.end(signal.SIGTERM) == 0
        assert running.err == ""
        assert running.out.endswith("\nstopped; nothing is left running\n")


def rows(table: str) -> list[dict[str, str]]:
    """The rows of a kubectl table; columns are found by the position of their header."""
    header, *lines = table.rstrip("\n").splitlines()
    starts = [(match.group(), match.start()) for match in re.finditer(r"\S+", header)]
    ends = [start for _, start in starts[1:]] + [10_000]
    return [{word: line[start:end].strip() for (word, start), end in zip(starts, ends, strict=True)} for line in lines]


def events(running: RunningProgram) -> list[str]:
    """The events without their times: `claim source text`."""
    found = re.findall(r"^ *\d+\.\d\d s  (.*)$", running.out, re.MULTILINE)
    return [" ".join(line.split()) for line in found]


def in_order(lines: list[str], *beginnings: str) -> None:
    """Assert that lines with these beginnings are in this order."""
    position = 0
    for beginning in beginnings:
        later = [at for at in range(position, len(lines)) if lines[at].startswith(beginning)]
        assert later, f"{beginning!r} does not follow in\n" + "\n".join(lines)
        position = later[0] + 1


# --- kept running ----------------------------------------------------------------------------------------------------


def test_the_printed_commands_work(tmp_path: Path) -> None:
    """The five commands, copied into a shell, create a Ready claim, delete it and find no problem."""
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
        assert "\nno check failed" in done.stdout
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


def test_a_deleted_crd(tmp_path: Path) -> None:
    """Claims are kept while their CRD is being deleted; the trial goes on without it, and with it again."""
    kubeconfig = tmp_path / "kubeconfig"
    with started(tmp_path, "try", "--speed", SPEED, "--kubeconfig", str(kubeconfig)) as running:
        running.until("Ctrl-C stops")
        _delete_and_install_crd(kubeconfig)
        assert running.end(signal.SIGTERM) == 0
    assert running.out.endswith("\nstopped; nothing is left running\n")


def _delete_and_install_crd(kubeconfig: Path) -> None:
    kubectl(kubeconfig, "apply", "-f", str(WORKSPACE))
    kubectl(kubeconfig, "wait", "--for=condition=Ready", f"nodeclaim/{NAME}", "--timeout=60s")
    installed = kubectl(kubeconfig, "get", "crd", CRD, "-o", "yaml")
    kubectl(kubeconfig, "delete", "crd", CRD, "--wait=false")
    sleep(2.0)  # more than three simulated minutes
    assert NAME in kubectl(kubeconfig, "get", "nodeclaims", "-o", "name")
    kubectl(kubeconfig, "patch", "nodeclaim", NAME, "--type=merge", "-p", '{"metadata": {"finalizers": []}}')
    kubectl(kubeconfig, "wait", "--for=delete", f"crd/{CRD}", "--timeout=60s")
    sleep(0.5)
    (kubeconfig.parent / "crd.yaml").write_text(installed, encoding="utf-8")
    kubectl(kubeconfig, "create", "-f", str(kubeconfig.parent / "crd.yaml"))
    assert "aks-" in kubectl(kubeconfig, "get", "nodes", "-l", "gpu-provisioner.sh/nodeclaim-uid", "-o", "name")


def describe_shows_conditions_and_events_in_order(kubeconfig: Path) -> None:
    """The four conditions are True, in the order of a launch; the events go from Creating to Initialized, as far as
    kubectl sorts them, which is by the second; `events --for` shows the same.
    """
    reported = kubectl(kubeconfig, "describe", "nodeclaim", NAME)
    described, events = reported.split("\nEvents:\n")
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
    assert "Initialized" in {reason for reason, age in zip(reasons, ages, strict=True) if age == ages[-1]}
    # Those of the same second are in any order.
    assert sorted(reasons) == ["Initialized", "Registered"]
    assert {(line[0], line[3]) for line in lines} == {("Normal", "gpu-provisioner")}
    listed = rows(kubectl(kubeconfig, "events", "--for", f"nodeclaim/{NAME}"))
    assert sorted(row["REASON"] for row in listed) == sorted(reasons)
    (last,) = [row["MESSAGE"] for row in listed if row["REASON"] == "Initialized"]
    assert last == "the Node is Ready with 1 of 1 nvidia.com/gpu allocatable"


def delete_waits_for_the_termination(running: RunningProgram, kubeconfig: Path) -> None:
    """kubectl returns when the claim is deleted; nothing remains; the events were printed in order."""
    assert kubectl(kubeconfig, "delete", "nodeclaim", NAME) == f'nodeclaim.karpenter.sh "{NAME}" deleted\n'
    assert kubectl(kubeconfig, "get", "nodeclaims", "-o", "name") == ""
    assert kubectl(kubeconfig, "get", "nodes", "-o", "name") == "node/aks-system-47249735-vmss000000\n"
    running.until("deleted; remaining")
    lines = events(running)
    assert all(line.startswith(f"{NAME} ") for line in lines)
    in_order(
        [line.removeprefix(f"{NAME} ") for line in lines],
        "NodeClaim created, requests Standard_NC24ads_A100_v4",
        "ARM PUT agent pool -> 201 Created",
        "NodeClaim Launched = Unknown: Creating since",
        f"Node {NODE} created",
        "NodeClaim Launched = True",
        "NodeClaim Registered = True",
        "NodeClaim Initialized = Unknown (NodeInitializing): ",
        "Node Ready = True",
        "Node nvidia.com/gpu allocatable: 1",
        "NodeClaim Initialized = True",
        "NodeClaim Ready = True",
        "NodeClaim is being deleted",
        "AgentPool is being deleted",
        "ARM DELETE agent pool -> 202 Accepted",
        "AgentPool deleted",
        "Node deleted",
        "NodeClaim deleted; remaining: 0 agent pools, 0 Nodes",
    )
    # The absence of the pool is proven by a shared LIST, which belongs to no claim.
    assert f"{NAME} ARM GET agent pool -> 404 Not Found" not in lines
    assert "LIST" not in running.out


def listening(pid: int) -> list[str]:
    """The local addresses, in the kernel's form, on which this process listens."""
    sockets = {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()}
    rows = [
        line.split()
        for kind in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]
    ]
    return [row[1].partition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="needs the proc file system")
def test_every_port_is_on_loopback(served: tuple[RunningProgram, Path]) -> None:
    """The API server, ARM, metrics and probes: nothing outside the machine reaches a trial."""
    deadline = monotonic() + 30
    while len(found := listening(served[0].process.pid)) < 4:
        assert monotonic() < deadline, f"it listens on {found} only"
        sleep(0.1)
    assert set(found) == {"0100007F"}


def test_the_life_of_a_claim_in_kubectl(served: tuple[RunningProgram, Path]) -> None:
    """`get -w` shows each change, `describe` the conditions and the events, `get nodes` the Node."""
    running, kubeconfig = served
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
    # Each row has at least the cells of the row before; Ready comes last, with all of them.
    header, *grown = [row[:-1] for row in seen]
    assert header == ["NAME", "TYPE", "CAPACITY", "ZONE", "NODE", "READY"]
    # The watch begins with the claim as it is by then; the requested size is shown before the launch.
    assert grown[0] in ([NAME], [NAME, "Standard_NC24ads_A100_v4"], [NAME, "Standard_NC24ads_A100_v4", "Unknown"])
    assert [len(row) for row in grown] == sorted(len(row) for row in grown)
    assert "Unknown" in grown[-2]
    assert grown[-1] == [NAME, "Standard_NC24ads_A100_v4", "on-demand", "0", NODE, "True"]

    (wide,) = rows(kubectl(kubeconfig, "get", "nodeclaims", "-o", "wide"))
    assert (wide["REASON"], wide["NODEPOOL"], wide["NODECLASS"]) == ("", "kaito", "default")
    assert wide["IMAGEID"].startswith("AKSUbuntu")
    assert wide["ID"].endswith("/virtualMachines/0")
    nodes = {row["NAME"]: row["STATUS"] for row in rows(kubectl(kubeconfig, "get", "nodes"))}
    assert nodes == {"aks-system-47249735-vmss000000": "Ready", NODE: "Ready"}
    assert "nvidia.com/gpu:     1" in kubectl(kubeconfig, "describe", "node", NODE)
    describe_shows_conditions_and_events_in_order(kubeconfig)
    delete_waits_for_the_termination(running, kubeconfig)


def test_a_claim_without_quota_reports_it_until_it_is_deleted(tmp_path: Path) -> None:
    """`--fail quota` without `--once`: the scenario is printed, the claim has cause and remedy, and can be deleted."""
    kubeconfig = tmp_path / "kubeconfig"
    with started(tmp_path, "try", "--fail", "quota", "--kubeconfig", str(kubeconfig)) as running:
        running.until("Ctrl-C stops")
        assert "Injected failure: the subscription has a quota of 0 cores" in running.out
        assert "never succeeds. The claim is deleted at once" in running.out
        kubectl(kubeconfig, "apply", "-f", str(WORKSPACE))
        kubectl(kubeconfig, "wait", "nodeclaim", NAME, "--for=condition=Launched=false", "--timeout=20s")
        (claim,) = rows(kubectl(kubeconfig, "get", "nodeclaims"))
        assert (claim["READY"], claim["NODE"]) == ("False", "")
        running.until("NodeClaim Launched = False (QuotaExceeded)")
        described = kubectl(kubeconfig, "describe", "nodeclaim", NAME)
        assert re.search(r"Warning +QuotaExceeded .*cores quota in westeurope.*az vm list-usage", described)
        kubectl(kubeconfig, "delete", "nodeclaim", NAME)
        running.until("NodeClaim deleted; remaining: 0 agent pools, 0 Nodes")
        assert running.end(signal.SIGTERM) == 0
    # The Event repeats the condition and is left out.
    assert sum("QuotaExceeded" in line for line in events(running)) == 1


# --- once ------------------------------------------------------------------------------------------------------------


def test_another_kubeconfig_is_not_overwritten(tmp_path: Path) -> None:
    """Such as that of a real cluster: exit 2, a line for the cause and one for the remedy."""
    theirs = tmp_path / "config"
    theirs.write_text("apiVersion: v1\nkind: Config\ncurrent-context: production\n")
    before = theirs.read_bytes()
    running = ended(tmp_path, "try", "--kubeconfig", str(theirs))
    assert (running.process.returncode, running.out) == (2, "")
    assert running.err == (
        f"gpu-provisioner try: {theirs} exists and was not written by `try`\n    Set another path with --kubeconfig.\n"
    )
    assert theirs.read_bytes() == before


def test_a_kubeconfig_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Its directory does not exist."""
    running = ended(tmp_path, "try", "--kubeconfig", str(tmp_path / "nowhere" / "config"))
    assert (running.process.returncode, running.out) == (2, "")
    assert running.err.splitlines() == [
        f"gpu-provisioner try: cannot write {tmp_path}/nowhere/config: no such file or directory",
        "    Set another path with --kubeconfig.",
    ]


def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    """With the flag for another one."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        running = ended(tmp_path, "try", "--port", str(port))
    assert running.process.returncode == 2
    assert running.err == (
        f"gpu-provisioner try: port {port} of 127.0.0.1 is in use\n"
        "    Set another port with --port, or omit the flag to use any free one.\n"
    )


def test_once_fails_if_the_api_server_refuses_a_claim(tmp_path: Path) -> None:
    """Exit 1, with the API server's message."""
    claim = yaml.safe_load(WORKSPACE.read_text())
    claim["metadata"]["name"] = "Not_A_Name"
    path = tmp_path / "claim.yaml"
    path.write_text(yaml.safe_dump(claim))
    running = ended(tmp_path, "try", "--once", "-f", str(path))
    assert running.process.returncode == 1
    assert "The run failed:\n" in running.out
    assert "422" in running.out
    assert 'Invalid value: "Not_A_Name"' in running.out
    assert running.err == ""


def test_a_scenario_without_effect_is_a_failure(tmp_path: Path) -> None:
    """If nothing is injected, `--once` prints what it did not observe, and exits 1."""
    script = (
        "import dataclasses, sys; from provisioner.cli.main import run_command\n"
        "from provisioner.trial import runner, scenarios\n"
        "runner.CONTROLLER_TIMEOUT_SECONDS, runner.AZURE_TIMEOUT_SECONDS = 10.0, 0.0\n"
        "for name, scenario in scenarios.SCENARIOS.items():\n"
        "    scenarios.SCENARIOS[name] = dataclasses.replace(scenario, inject=lambda world: None)\n"
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

    with undisturbed("quota") as quota, undisturbed("slow-gpu") as slow:
        ended = [(process.communicate(timeout=60)[0], process.returncode) for process in (quota, slow)]
    for shown, code in ended:
        assert code == 1, shown
        # The machine becomes Ready meanwhile.
        assert re.search(
            rf"The run failed:\n  {NAME}: condition \w+ does not have reason \w+\ntime to Ready:\n", shown
        ), shown


# --- slow processes: started first, read last -------------------------------------------------------------------------


@pytest.mark.parametrize("fail", FAILING)
def test_each_scenario_ends_as_expected(fail: str, failing: dict[str, RunningProgram]) -> None:
    """`--once --fail …`: the reason is on the claim, the run ends as the scenario states, exit 0."""
    running = failing[fail]
    assert running.end(within_seconds=60.0) == 0, running.out
    assert running.err == ""
    assert "\nInjected failure: " in running.out
    assert "Remaining: 0 agent pools, 0 Nodes, 0 NodeClaims" in running.out
    lines = [line.removeprefix(f"{NAME} ") for line in events(running)]
    seen = {
        "capacity": (
            "AgentPool failed",
            "NodeClaim Launched = False: AllocationFailed: ",
            "AgentPool deleted",
            "ARM PUT agent pool -> 201 Created",
            "NodeClaim Ready = True",
            "NodeClaim deleted",
        ),
        "quota": (
            "ARM PUT agent pool -> 400 Bad Request",
            "NodeClaim Launched = False (QuotaExceeded): ",
            "NodeClaim deleted",
        ),
        "slow-gpu": (
            "Node Ready = True",
            "AgentPool running",
            "NodeClaim Initialized = Unknown (ResourceNotRegistered): nvidia.com/gpu: 0 of 1",
            "Node nvidia.com/gpu allocatable: 1",
            "NodeClaim Ready = True",
            "NodeClaim deleted",
        ),
        "throttle": (
            "ARM PUT agent pool -> 429 Too Many Requests",
            "NodeClaim Launched = Unknown: Throttled: ",
            "ARM PUT agent pool -> 429 Too Many Requests",
            "ARM PUT agent pool -> 429 Too Many Requests",
            "ARM PUT agent pool -> 201 Created",
            "NodeClaim Ready = True",
            "NodeClaim deleted",
        ),
    }
    in_order(lines, *seen[fail])
    result = "reported QuotaExceeded, got no instance, and was deleted" if fail == "quota" else "became Ready despite"
    assert result in running.out
    assert ("NodeClaim Ready = True" in lines) is (fail != "quota")


def test_the_demo_succeeds(demo: RunningProgram) -> None:
    """What `make demo` shows, with the log: three claims with two ARM requests each, exit 0, plain text."""
    assert demo.end(within_seconds=60.0) == 0, demo.out
    assert re.search(
        r"\n3 NodeClaims became Ready and were deleted in the order instance, Node, NodeClaim\.\n"
        r"Remaining: 0 agent pools, 0 Nodes, 0 NodeClaims \(listed from ARM and the API server\)\.\n"
        r"ARM requests: 2 per claim, and \d shared LISTs\.\n"
        r"time to Ready:\n(  \w+ +\d+\.\d s\n){3}$",
        demo.out,
    ), demo.out
    assert "\x1b" not in demo.out
    log = [json.loads(line) for line in demo.err.splitlines()]
    assert {entry["key"] for entry in log if "reconcileID" in entry} == {NAME, "firstgpu", "a100multi"}
    assert {entry["level"] for entry in log} == {"INFO"}


def test_the_demo_with_pods_succeeds(pods: RunningProgram) -> None:
    """The pod runs on a machine that was created for it, the price is stated, and the Event names the taint."""
    assert pods.end(within_seconds=120.0) == 0, pods.out
    assert re.search(
        r"\n1 machine was created for the pending pod \(Standard_NC4as_T4_v3, 0\.658 USD an hour at the list prices of"
        r" westeurope, \S+\), and removed empty, in the order instance, Node, NodeClaim\.\n"
        r"The other pod stayed Pending: Failed to schedule pod, NodePool gpu: did not tolerate taint"
        r" \(taint=sku=gpu:NoSchedule\)\n"
        r"Remaining: 0 agent pools, 0 Nodes, 0 NodeClaims \(listed from ARM and the API server\)\.\n"
        r"ARM requests: 2 per claim, and \d shared LISTs\.\n",
        pods.out,
    ), pods.out
    lines = [line.split(maxsplit=3)[-1] for line in pods.out.splitlines() if " s  trainer " in line]
    kinds = [line.split()[1] for line in lines if line.startswith("Pod ")]
    # kube-scheduler may report again that no Node fits while the machine starts.
    story = [*dict.fromkeys(kinds)]
    expected = ["created", "FailedScheduling", "Nominated:", "bound", "Running", "is", "deleted"]
    assert story == expected, pods.out


def test_a_fault_plan_is_injected(tmp_path: Path) -> None:
    """Two 429 responses from a file: the claim reports them and becomes Ready."""
    plan = tmp_path / "plan.yaml"
    plan.write_text("- {verb: PUT, times: 2, arm_throttled_seconds: 2}\n")
    claim = ("-f", str(ROOT / "examples" / "first-gpu.yaml"))
    with started(tmp_path, "try", "--once", "--speed", SPEED, "--faults", str(plan), *claim) as running:
        assert running.end(within_seconds=120.0) == 0, running.out
        text = "\n".join(events(running))
    assert text.count("429 Too Many Requests") == 2, text
    assert "Launched = Unknown (SubscriptionThrottled): SubscriptionRequestsThrottled: " in text, text
