"""The first page that a newcomer follows, followed: its lines are typed as they stand, and do what it says."""

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
    """A shell in the checkout that stops at the first line that fails."""
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


def test_the_offline_way_is_as_the_page_says(tmp_path: Path) -> None:
    """One terminal runs the line with `try`, the other all lines with kubectl: Ready, looked at, and gone again."""
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


def test_what_the_pages_say_of_kaitos_claim_can_be_typed(tmp_path: Path) -> None:
    """The lines with kubectl of two how-tos, about the claim that KAITO's example makes."""
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


def test_the_claim_of_the_azure_way_is_served_as_the_page_says(tmp_path: Path) -> None:
    """The lines with kubectl about the claim, and `plan` before them, do the same on the embedded cluster."""
    there = lines(PAGE, "## On AKS")
    kubeconfig = tmp_path / "try.kubeconfig"
    script = [line for line in there if re.match(r"kubectl \w+.*(nodeclaim|examples/)", line) or " plan -f " in line]
    assert [line.split()[1] for line in script] == ["plan", "apply", "wait", "get", "delete"]
    with started(tmp_path, "try", "--kubeconfig", str(kubeconfig), *SPEED) as running:
        running.until("Ctrl-C stops")
        done = typed(tmp_path, script, kubeconfig)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "nodeclaim.karpenter.sh/firstgpu condition met" in done.stdout
