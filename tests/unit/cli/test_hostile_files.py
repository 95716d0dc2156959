"""Files of others: each command that reads one ends within bounds of time and memory, with printable text."""

import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
MEMORY_BYTES, CPU_SECONDS = 2**30, 30

CLAIM = """apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: gpu1%s}
spec:
  nodeClassRef: {group: kaito.sh, kind: KaitoNodeClass, name: default}
  requirements:
  - {key: node.kubernetes.io/instance-type, operator: In, values: [Standard_NC24ads_A100_v4]}
%s"""
NINE = "".join(f"y{i}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9))
HOSTILE = {
    "a billion laughs": ("x: &a [x,x,x,x,x,x,x,x,x]\n" + NINE, "aliases are not supported"),
    "a list of itself": ("a: &a [*a]\n", "aliases are not supported"),
    "a merge": ("a: &a {b: c}\nd: {<<: *a}\n", "aliases are not supported"),
    "depth": ("[" * 100_000, "nested more than 100 levels deep"),
    "a long number": ("a: 1" + ":1" * 100_000 + "\n", "a number of 200001 characters"),
    "depth of JSON": ("[" * 900 + "]" * 900, "nested more than 100 levels deep"),
    "a long number in JSON": ('{"a": ' + "1" * 4_000 + "}", "a number of"),
    "size": ("a: " + "x" * 2**21 + "\n", "more than 1048576 characters"),
}
CLUSTER = (
    "--deployment-mode=managed",
    "--subscription-id=00000000-0000-0000-0000-000000000001",
    "--resource-group=g",
    "--cluster-name=c",
    "--location=l",
)
PRINTED = {
    "a resource's name": CLAIM % ("", '  resources: {requests: {"\\e[2Jstorage": "x"}}\n'),
    "the claim's name": CLAIM.replace("gpu1%s", '"\\e[2Jx\\u202e"') % "",
    "a requirement's key": CLAIM % ("", '  - {key: "\\e[2Jk", operator: Exists}\n'),
    "a kind": 'kind: "\\e[2J\\u202eX"\n',
    "a line of its own": CLAIM.replace("gpu1%s", '"x\\n✗ forged"') % "",
}


def ran(*words: str) -> subprocess.CompletedProcess[str]:
    """The command as it is installed, in a process with limited memory and time."""

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))

    command = [sys.executable, "-c", "from provisioner.cli.main import main; main()", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, preexec_fn=bounded, check=False)


READERS: dict[str, Callable[[Path], tuple[str, ...]]] = {
    "plan": lambda file: ("plan", "-f", str(file)),
    "schedule": lambda file: ("schedule", "-f", str(file)),
    "config": lambda file: ("config", "--config", str(file)),
    "gc": lambda file: ("gc", "--config", str(file)),
    "try": lambda file: ("try", "--once", "-f", str(file)),
    "try with faults": lambda file: ("try", "--once", "--faults", str(file)),
    "a kubeconfig": lambda file: ("gc", "--kubeconfig", str(file), *CLUSTER),
    "the kubeconfig of run": lambda file: ("run", "--kubeconfig", str(file), *CLUSTER),
}


@pytest.mark.matrix(quick=3)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("what", HOSTILE)
def test_a_file_beyond_the_limits_is_refused(reader: str, what: str, tmp_path: Path) -> None:
    """One line for the cause, one for the remedy, exit code 2."""
    text, cause = HOSTILE[what]
    file = tmp_path / "file.yaml"
    file.write_text(text, encoding="utf-8")
    ended = ran(*READERS[reader](file))
    lines = ended.stderr.splitlines()
    assert (ended.returncode, ended.stdout) == (2, "")
    assert cause in ended.stderr
    assert len(lines) <= 3
    assert not CONTROL.search(" ".join(lines))


@pytest.mark.matrix(quick=3)
@pytest.mark.parametrize("output", ["text", "json", "yaml"])
@pytest.mark.parametrize("what", PRINTED)
def test_plan_prints_no_control_characters(what: str, output: str, tmp_path: Path) -> None:
    """A text of the file moves no cursor, hides nothing and begins no line."""
    file = tmp_path / "file.yaml"
    file.write_text(PRINTED[what], encoding="utf-8")
    ended = ran("plan", "-f", str(file), *(["-o", output] if output != "text" else []))
    lines = (ended.stdout + ended.stderr).split("\n")
    assert not [line for line in lines if CONTROL.search(line)]
    assert not [line for line in lines if line.startswith("✗")]
    assert "Traceback" not in ended.stderr
