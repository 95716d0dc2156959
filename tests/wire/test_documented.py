"""Runs the commands of the getting-started pages as they are printed, and checks what the pages state."""

import re
import subprocess
from pathlib import Path

from tests.unit.repository.documented import lines

from .program import BIN, ROOT, environment, started

PAGE = (ROOT / "docs" / "getting-started" / "first-gpu.md").read_text(encoding="utf-8")
SPEED = ("--speed", "1000")
NAME = "ws3f2a91c0d"
HOW_TOS = ("kaito", "pause-repair")
WRITTEN = "/tmp/try.kubeconfig"  # noqa: S108 - as the page has it


def typed(home: Path, script: list[str], kubeconfig: Path) -> subprocess.CompletedProcess[str]:
    """Run these lines in a shell in the checkout; it stops at the first line that fails."""
    env = environment(home, path=f"{BIN}:/usr/bin:/bin", KUBECONFIG=str(kubeconfig))
    return subprocess.run(
        ["sh", "-c", "\n".join(["set -e", *script])],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_offline_tutorial(tmp_path: Path) -> None:
    """The line with `try` and the lines with kubectl provision, show and delete a claim as the page states."""
    offline = lines(PAGE, "## Offline")
    (first,) = [line for line in offline if "gpu-provisioner try --kubeconfig" in line]
    kubeconfig = tmp_path / "try.kubeconfig"
    words = first.replace(WRITTEN, str(kubeconfig)).split()[1:]
    script = [line.replace(WRITTEN, str(kubeconfig)) for line in offline if "kubectl" in line]
    assert len(script) >= 5
    assert any(line.startswith("export KUBECONFIG=") for line in offline)
    with started(tmp_path, *words, *SPEED) as running:
        running.until("Ctrl-C stops")
        done = typed(tmp_path, script, kubeconfig)
    assert done.returncode == 0, done.stderr + done.stdout
    for words_of_page in re.findall(r"^nodeclaim\.karpenter\.sh.*$", PAGE, re.MULTILINE):
        assert words_of_page in done.stdout


def test_the_commands_of_the_kaito_pages(tmp_path: Path) -> None:
    """The kubectl lines of two how-to pages work on the claim that KAITO's example creates."""
    pages = [(ROOT / "docs" / "how-to" / f"{name}.md").read_text(encoding="utf-8") for name in HOW_TOS]
    script = [line for page in pages for line in lines(page) if line.startswith("kubectl") and "-n " not in line]
    assert sum(NAME in line for line in script) >= 3
    kubeconfig = tmp_path / "try.kubeconfig"
    made = ["kubectl apply -f examples/kaito-workspace.yaml"]
    with started(tmp_path, "try", "--kubeconfig", str(kubeconfig), *SPEED) as running:
        running.until("Ctrl-C stops")
        done = typed(tmp_path, [*made, *script], kubeconfig)
    assert done.returncode == 0, done.stderr + done.stdout
    assert f"nodeclaim.karpenter.sh/{NAME} annotated" in done.stdout


def test_the_claim_of_the_azure_tutorial(tmp_path: Path) -> None:
    """`plan` and the kubectl lines about the claim and the Pod work on the embedded cluster as the page states."""
    there = lines(PAGE, "## On AKS")
    kubeconfig = tmp_path / "try.kubeconfig"
    ours = r"gpu-provisioner plan -f |kubectl \w+.*(nodeclaim|-f (examples|docs)/)"
    script = [line for line in there if re.match(ours, line)]
    verbs = ["apply", "plan", "apply", "wait", "get", "apply", "delete", "delete"]
    assert [line.split()[1] for line in script] == verbs
    with started(tmp_path, "try", "--kubeconfig", str(kubeconfig), *SPEED) as running:
        running.until("Ctrl-C stops")
        done = typed(tmp_path, script, kubeconfig)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "nodeclaim.karpenter.sh/firstgpu condition met" in done.stdout


def test_the_pods_of_the_azure_tutorial(tmp_path: Path) -> None:
    """`schedule` and the kubectl lines end with a Running pod; the Azure quota and the log need a real cluster."""
    page = (ROOT / "docs" / "getting-started" / "pods.md").read_text(encoding="utf-8")
    there = [line for line in lines(page, "## On AKS") if not re.search(r"provisioner check|kubectl logs", line)]
    assert [line.split()[0] for line in there] == ["gpu-provisioner", "kubectl", "sed", "kubectl", "kubectl"]
    # The exit code of `schedule` is 1, because one of the pods stays pending.
    script = ["export REGION=westeurope", f"! {there[0]}", *there[1:], "kubectl get pod trainer"]
    kubeconfig = tmp_path / "try.kubeconfig"
    with started(tmp_path, "try", "--kubeconfig", str(kubeconfig), *SPEED) as running:
        running.until("Ctrl-C stops")
        done = typed(tmp_path, script, kubeconfig)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "pod/trainer condition met" in done.stdout
    assert re.search(r"^trainer +1/1 +Running", done.stdout, re.MULTILINE)
