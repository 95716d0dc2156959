"""The commands that write to the cluster, and `gc`, which can confirm what it lists."""

import argparse

from provisioner.cli.arguments import RELEASE_FLAG, Completes, Parser, add, add_output
from provisioner.cli.command import Command, Invocation
from provisioner.settings.kinds import DURATION

DONE_REFUSED_USAGE = "Exit codes: 0 done, 1 refused or failed, 2 invalid usage or settings."


def _add_gc(parser: Parser) -> None:
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--dry-run", action="store_true", help="only list the removals (the default)")
    mode.add_argument("--confirm", action="store_true", help="let exactly the listed removals pass the circuit breaker")
    parser.add_argument("--yes", action="store_true", help="do not ask before --confirm writes")
    add_output(parser)


def _gc(call: Invocation) -> int:
    from provisioner.cli.commands import gc

    return call.connected(gc.run)


def _add_adopt(parser: Parser) -> None:
    add(parser, "name", nargs="?", metavar="NAME", help="the NodeClaim", completes=Completes.NODECLAIMS)
    parser.add_argument("--all", action="store_true", help="every NodeClaim whose agent pool has a dead UID")
    parser.add_argument("--yes", action="store_true", help="do not ask before --all writes")
    add_output(parser)


def _adopt(call: Invocation) -> int:
    from provisioner.cli.commands import adopt

    return call.connected(adopt.run)


def _add_release(parser: Parser) -> None:
    add(parser, "name", metavar="NAME", help="the NodeClaim", completes=Completes.NODECLAIMS)
    text = "state that you have verified in Azure that the agent pool is gone"
    parser.add_argument(RELEASE_FLAG, dest="known", action="store_true", help=text)


def _release(call: Invocation) -> int:
    from provisioner.cli.commands import release

    return call.connected(release.run)


def _add_uninstall(parser: Parser) -> None:
    parser.add_argument("--drain", action="store_true", required=True, help="drain and delete the machines")
    parser.add_argument("--dry-run", action="store_true", help="only list what would be deleted")
    parser.add_argument("--yes", action="store_true", help="do not ask before NodeClaims are deleted")
    text = "how long to wait for the removals, such as 45m (30m)"
    parser.add_argument("--timeout", type=_duration, default=1800.0, metavar="DURATION", help=text)
    add_output(parser)


def _duration(written: str) -> float:
    """Seconds."""
    try:
        seconds: float = DURATION.read(written)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{written!r}: {error}; set it to {DURATION.expects}") from None
    return seconds


def _uninstall(call: Invocation) -> int:
    from provisioner.cli.commands import uninstall

    return call.connected(uninstall.run)


GC = Command(
    name="gc",
    summary="list removals without a deletion request, and confirm them",
    description="""\
Lists the removals that the controller infers without a deletion request: agent pools without a NodeClaim, NodeClaims
without an agent pool, machines whose Node was deleted, and leftover Nodes. The command reads the cluster and the list
of agent pools once and writes nothing. Foreign agent pools are never removed, and requested deletions (kubectl delete)
are never restricted.

If more than max(3, 20 %) of the agent pools would be removed at once, the circuit breaker stops all of these removals.
Find the cause first; after a restored backup, run gpu-provisioner adopt --all. --confirm lets exactly the listed
removals pass the circuit breaker for one hour.""",
    examples="""\
  gpu-provisioner gc                    a table; - is an empty cell
  gpu-provisioner gc -o json            the same for programs
  gpu-provisioner gc --confirm          print the table, ask, then let these removals pass the circuit breaker

Removals of the last ten minutes, which the Lease records, count towards the circuit breaker.""",
    exit_codes=DONE_REFUSED_USAGE,
    settings="accepted",
    arguments=_add_gc,
    run=_gc,
    kube=True,
    release=True,
)

ADOPT = Command(
    name="adopt",
    summary="give an agent pool to a restored NodeClaim",
    description="""\
A NodeClaim that was restored from a backup has a new UID, and its agent pool has the old one. The controller then keeps
the agent pool behind its circuit breaker and creates nothing for the NodeClaim. adopt annotates the NodeClaim with the
old UID (gpu-provisioner.sh/adopt); the controller gives agent pool and Node to it unchanged and creates no second
machine. A Node that Kubernetes is deleting because its former NodeClaim is gone keeps running; the status of its new
NodeClaim reports this.

The command refuses NodeClaims whose old UID still exists, foreign agent pools, and agent pools of other names.""",
    examples="""\
  gpu-provisioner adopt ws3f2a91c0d     one NodeClaim
  gpu-provisioner adopt --all           list all NodeClaims whose agent pool has a dead UID, ask, then annotate them
  gpu-provisioner adopt --all --yes -o json    the same in a script
  kubectl get nodeclaims -w             watch the result""",
    exit_codes=DONE_REFUSED_USAGE,
    settings="accepted",
    arguments=_add_adopt,
    run=_adopt,
    kube=True,
    release=True,
)

RELEASE = Command(
    name="release",
    summary="remove the finalizers of a NodeClaim whose agent pool is gone",
    description="""\
Completes the deletion of a NodeClaim when the controller cannot prove that the agent pool is gone, for example
because the managed cluster was deleted in Azure. The command reads the agent pool from ARM and refuses if it exists,
or if the settings name another cluster: its machine would be billed without a NodeClaim. Otherwise it removes the
finalizer karpenter.sh/termination from the NodeClaim's Nodes and from the NodeClaim, and no other finalizer, after an
Event (FinalizerRemovedManually) that names the user. The chart's admission policies permit this to cluster
administrators and to protectionPolicy.users.""",
    examples=f"""\
  gpu-provisioner release ws3f2a91c0d                              print what would be done; exit code 2
  gpu-provisioner release ws3f2a91c0d {RELEASE_FLAG}    do it""",
    exit_codes=DONE_REFUSED_USAGE,
    settings="accepted",
    arguments=_add_release,
    run=_release,
    kube=True,
    release=True,
)

UNINSTALL = Command(
    name="uninstall",
    summary="remove all machines of this program, and prove that nothing remains",
    description="""\
Deletes the NodePools of this program, so that no machine is bought for the pods that the drain evicts; then all
NodeClaims that this program manages, adopted ones included, and the AgentPoolNodeClasses. Waits until the running
controller has drained their Nodes, deleted their agent pools and removed its finalizers, and until garbage collection
has removed orphans. Objects and agent pools of other controllers are not changed.

The command ends when nothing remains, when a user must act, or after --timeout; it then lists what remains and what
each object waits for. The deletions continue when the command is interrupted. Run it twice:

1. while the controller runs, to remove the machines; exit code 3: only the Lease of the controller remains
2. after helm uninstall, to delete the Lease: the command reads for one minute, because an agent pool that was requested
   last may not be visible yet, and ends with exit code 0

Before the question, the command prints the cluster, the objects that it deletes, and the pods that run on the machines.
NodeOverlays stay: Karpenter may use them too.

The command uses the permissions of the caller: list nodepools, agentpoolnodeclasses, nodeclaims, nodes,
customresourcedefinitions and leases, delete all of these except nodes and customresourcedefinitions, and read the
managed cluster and its agent pools in Azure. Pods and nodeoverlays are named if the caller may list them.""",
    examples="""\
  gpu-provisioner uninstall --drain --dry-run          list what would be deleted, how, and the pods on it
  gpu-provisioner uninstall --drain                    print the list, ask, delete, wait
  gpu-provisioner uninstall --drain --yes -o json      the same in a script""",
    exit_codes="""\
Exit codes: 0 nothing remains, 1 something remains or the command was refused, 2 invalid usage or settings,
3 only the Lease of a running controller remains.""",
    settings="accepted",
    arguments=_add_uninstall,
    run=_uninstall,
    kube=True,
    release=True,
)

WRITING = (GC, ADOPT, RELEASE, UNINSTALL)
