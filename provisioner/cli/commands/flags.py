"""What can be written after each command, and what `--help` says of it; light, so that a mistake is told at once."""

import argparse
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import TextIO

import msgspec

from .refusal import OK, USAGE

RELEASE_FLAG = "--i-know-the-pool-is-gone"
SETTINGS = """
The settings of `gpu-provisioner run` (KUBECONFIG, ARM_SUBSCRIPTION_ID, ARM_RESOURCE_GROUP, AZURE_CLUSTER_NAME, …)
count here too, as flags or variables: gpu-provisioner --help lists them. With DEPLOYMENT_MODE=managed, Azure's default
chain finds your own login (az login)."""
CODES = "Exit codes: 0 done, 1 refused or failed, 2 bad usage."

PLAN = """\
Shows, for each NodeClaim in some manifests, the agent pool that would be PUT, in which order sizes, zones and terms
would be tried, the Node that would come of it, and everything that is wrong with the claim, each with its remedy. It
asks nobody: no cluster, no Azure, no setting is needed. What only the cluster will know is shown as a <placeholder>."""
PLAN_EXAMPLES = """\
examples:
  gpu-provisioner plan -f claim.yaml              one file, with as many documents as it has
  gpu-provisioner plan -f claims/ -f more.json    every .yaml, .yml and .json in a directory, and a file
  kubectl get nodeclaims -o json | gpu-provisioner plan -f - -o json"""
PLAN_CODES = "Exit codes: 0 nothing is wrong, 1 something is, 2 bad usage."

CHECK = """\
Looks at everything that the controller needs, and says what is missing: its settings; the API server, the CRD, the
permissions, the lease; Azure's credential, the managed cluster, the permissions there, and quota and restrictions of
the sizes in use. Nothing is written anywhere.

✓ it is well   ✗ it is not, and what to do   - it could not be told, or is unusual, and why

Permissions are those of whoever runs it: in the controller's pod the controller's own, on your machine yours."""
CHECK_EXAMPLES = """\
examples:
  gpu-provisioner check                                      the sizes that NodeClaims ask for
  gpu-provisioner check --size Standard_NC24ads_A100_v4      this one too, as if one more machine of it were wanted
  kubectl -n gpu-provisioner exec deploy/gpu-provisioner -- gpu-provisioner check -o json"""
CHECK_CODES = "Exit codes: 0 nothing is ✗, 3 something is, 2 bad usage."

GC = """\
Shows what the controller would remove although nobody asked for it: agent pools without a NodeClaim, NodeClaims whose
pool is gone, machines whose Node was deleted, Nodes left over. One look at the cluster and one LIST of ARM; nothing is
written. Foreign agent pools are never touched, and removals that were asked for (kubectl delete) are never held back.

When more than max(3, 20 %) of the pools would go at once, the controller removes none of them: see what happened first
(a restored backup? then: gpu-provisioner adopt --all). If it is as it should be, --confirm lets the leader make exactly
the removals shown, within one hour."""
GC_EXAMPLES = """\
examples:
  gpu-provisioner gc                    the table; - stands for none
  gpu-provisioner gc -o json            the same for programs
  gpu-provisioner gc --confirm          show it, ask, then let these removals pass the circuit breaker

What the leader removed within the last ten minutes counts for its circuit breaker and cannot be seen from here."""

ADOPT = """\
A NodeClaim restored from a backup has a new UID, while its agent pool bears the old one: the controller then keeps the
machine behind its circuit breaker and serves the claim with nothing. adopt annotates the claim with the old UID
(gpu-provisioner.sh/adopt); the controller then hands it pool and Node as they are, and buys no second machine. A Node
that Kubernetes is already deleting, because its former claim is gone, runs on; its new claim says so.

It is refused while a claim with the old UID exists, for foreign pools, and for pools of other names."""
ADOPT_EXAMPLES = """\
examples:
  gpu-provisioner adopt ws3f2a91c0d     one claim
  gpu-provisioner adopt --all           a table of all claims whose pool bears a dead UID; asks, then annotates them
  kubectl get nodeclaims -w             watch what becomes of them"""

RELEASE = """\
For a NodeClaim that is being deleted and cannot end, because nothing proves to the controller that its agent pool is
gone: the managed cluster was deleted in Azure, say. release asks ARM once more. If the pool is there it refuses: the
machine would be billed without a claim. Otherwise it takes our finalizer (karpenter.sh/termination) off the claim's
Nodes and off the claim, and nobody else's, after an Event (FinalizerReleasedByHand) that says who did it."""
RELEASE_EXAMPLES = """\
examples:
  gpu-provisioner release ws3f2a91c0d                              what would be done; writes nothing, exit code 2
  gpu-provisioner release ws3f2a91c0d --i-know-the-pool-is-gone    do it"""

VALUES = """\
Writes the Helm chart's values for an existing AKS cluster, from what Azure says of it: region, cloud, OIDC issuer,
workload identity, managed Prometheus; and the client id of the managed identity, if there is one of the name given. It
reads these two and nothing else, with your own login (az login), and needs no access to Kubernetes. Values go to
stdout; what is missing in Azure, what could not be known and how to find it, and the commands to type next to stderr.

--client-id names the identity that the controller shall act as, not the one that reads here."""
VALUES_EXAMPLES = """\
examples:
  gpu-provisioner values --subscription-id SUB --resource-group RG --cluster-name AKS > values.yaml
  gpu-provisioner values --identity-name NAME              the rest from ARM_SUBSCRIPTION_ID, ARM_RESOURCE_GROUP, …
  gpu-provisioner values --deployment-mode managed         no workload identity: the node's identity acts"""
VALUES_CODES = "Exit codes: 0 written (what is missing is on stderr), 1 the cluster could not be read, 2 bad usage."


def _gc(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--dry-run", action="store_true", help="only show it (the default)")
    which.add_argument("--confirm", action="store_true", help="let the leader make exactly the removals shown")
    parser.add_argument("--yes", action="store_true", help="do not ask before --confirm writes")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="how to print it")


def _adopt(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="the NodeClaim")
    parser.add_argument("--all", action="store_true", help="every NodeClaim whose pool bears a dead UID")
    parser.add_argument("--yes", action="store_true", help="do not ask before --all writes")


def _release(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the NodeClaim")
    parser.add_argument(
        RELEASE_FLAG, dest="known", action="store_true", help="you have made sure of it, in the portal, say"
    )


def _plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f", "--file", action="append", required=True, metavar="FILE|DIR|-", help="manifests; may be given repeatedly"
    )
    parser.add_argument("-o", "--output", choices=("text", "json", "yaml"), default="text", help="how to print it")


def _check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--size", action="append", default=[], metavar="SIZE", help="a VM size; may be given repeatedly"
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="how to print it")


def _values(parser: argparse.ArgumentParser) -> None:
    default = "gpu-provisioner"
    parser.add_argument("--release", default=default, metavar="NAME", help="of the release (%(default)s)")
    parser.add_argument("--namespace", default=default, metavar="NAME", help="of the release (%(default)s)")
    parser.add_argument(
        "--identity-name",
        default=default,
        metavar="NAME",
        help="of the managed identity (%(default)s)",
    )
    parser.add_argument(
        "--identity-resource-group", default="", metavar="NAME", help="where that is (the cluster's resource group)"
    )


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """What a command's `--help` says, the flags of its own, and whether the settings count."""

    description: str
    examples: str
    flags: Callable[[argparse.ArgumentParser], None]
    codes: str = CODES
    settings: bool = True


COMMANDS = {
    "plan": Words(description=PLAN, examples=PLAN_EXAMPLES, flags=_plan, codes=PLAN_CODES, settings=False),
    "check": Words(description=CHECK, examples=CHECK_EXAMPLES, flags=_check, codes=CHECK_CODES),
    "gc": Words(description=GC, examples=GC_EXAMPLES, flags=_gc),
    "adopt": Words(description=ADOPT, examples=ADOPT_EXAMPLES, flags=_adopt),
    "values": Words(description=VALUES, examples=VALUES_EXAMPLES, flags=_values, codes=VALUES_CODES),
    "release": Words(description=RELEASE, examples=RELEASE_EXAMPLES, flags=_release),
}


def parser_of(name: str) -> argparse.ArgumentParser:
    """What reads the words after this command."""
    command = COMMANDS[name]
    parser = argparse.ArgumentParser(
        prog=f"gpu-provisioner {name}",
        description=command.description,
        epilog="\n".join((command.examples, *([SETTINGS] if command.settings else []), "", command.codes)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.flags(parser)
    if command.settings:
        parser.add_argument(
            "--config", metavar="FILE", default="", help="a YAML file of settings, by their flags' names"
        )
    return parser


def parsed(name: str, words: Sequence[str], *, out: TextIO, err: TextIO) -> argparse.Namespace | int:
    """What the words after a command say; an exit code if they ask for help or cannot be understood."""
    try:
        with redirect_stdout(out), redirect_stderr(err):
            return parser_of(name).parse_args(words)
    except SystemExit as ended:
        return USAGE if ended.code else OK
