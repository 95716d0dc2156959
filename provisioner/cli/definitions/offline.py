"""The commands that need neither a cluster nor Azure nor settings."""

from provisioner.cli.arguments import Completes, Parser, add, add_files, add_output
from provisioner.cli.command import Command, Invocation


def _add_try(parser: Parser) -> None:
    # Part of the second distribution, and not needed by the other commands.
    from provisioner.trial import flags

    flags.add_arguments(parser)
    parser.epilog = f"{flags.epilog()}\n\n{parser.epilog}"


def _try(call: Invocation) -> int:
    from provisioner.trial import command

    return command.run(call.arguments, call.out, call.err)


def _add_plan(parser: Parser) -> None:
    add_files(parser, required=True)
    text = "whose sizes a NodePool may buy (that of its zones, or eastus)"
    add(parser, "--region", metavar="REGION", help=text, completes=Completes.REGIONS)
    add_output(parser)


def _plan(call: Invocation) -> int:
    # Part of the second distribution.
    from provisioner.cli.commands import plan
    from provisioner.operator.azure import CLOUD

    return plan.run(call.arguments, CLOUD, call.typed, call.console)


def _add_schedule(parser: Parser) -> None:
    source = parser.add_mutually_exclusive_group()
    add_files(source, default=[])
    source.add_argument("--json-lines", action="store_true", help="read one scenario on each line of standard input")
    parser.add_argument(
        "--disrupt", action="store_true", help="print which machines would be disrupted now, and what keeps the others"
    )
    text = "whose sizes and prices (that of the Nodes or zones in the manifests, or eastus)"
    add(parser, "--region", metavar="REGION", help=text, completes=Completes.REGIONS)
    add_output(parser)


def _schedule(call: Invocation) -> int:
    from provisioner.cli.commands import schedule
    from provisioner.operator.azure import CLOUD

    return schedule.run(call.arguments, CLOUD, call.typed, call.console)


TRY = Command(
    name="try",
    summary="run the controller on an embedded cluster and an embedded Azure",
    description="Runs the controller against an embedded Kubernetes API server and an embedded Azure.",
    exit_codes="""\
Exit codes: 0 done (with --once: every expected event was observed), 1 not every expected event was observed,
2 invalid usage, 130 or 143 interrupted with --once.""",
    of_try=True,
    arguments=_add_try,
    run=_try,
)

PLAN = Command(
    name="plan",
    summary="validate NodeClaims, NodePools and node classes offline and print the resulting agent pools",
    description="""\
Validates NodeClaims, NodePools, AgentPoolNodeClasses and NodeOverlays, and prints every error with its line and remedy:
what the API server would refuse or drop, and what the controller would refuse. Prints for each NodeClaim the request
that creates its agent pool, the offerings in the order in which they are tried, and the resulting Node; for each
NodePool the sizes that it may buy in the region. The command works offline, without a cluster, an Azure credential or
settings. Values that only the cluster knows are printed as <placeholder>.""",
    examples="""\
  gpu-provisioner plan -f claim.yaml              one file, with any number of documents
  gpu-provisioner plan -f claims/ -f more.json    every .yaml, .yml and .json file of a directory, and a file
  gpu-provisioner plan -f fleet.yaml --region westeurope
  kubectl get nodeclaims,nodepools -o json | gpu-provisioner plan -f - -o json""",
    exit_codes="Exit codes: 0 no errors, 1 an object has errors, 2 invalid usage.",
    of_try=True,
    arguments=_add_plan,
    run=_plan,
)

SCHEDULE = Command(
    name="schedule",
    summary="place pods offline and print the machines to buy, with prices",
    description="""\
Places Pods on existing Nodes, on NodeClaims without a Node, and on new machines of NodePools, at list prices. Among all
fleets that take the most Pods it chooses the cheapest one. Prints which Pod goes where, the price an hour, and why each
other Pod stays pending. If no Pod is pending, it prints the machines that exist, with their prices and the room on
them. The command works offline, without a cluster, an Azure credential or settings.

With --disrupt it prints instead which machines of NodePools would be removed or replaced now because they are empty,
have drifted or are underutilized, what that saves, and why the others are kept. It simulates one pass of the
controller, with the budgets of the NodePools and the PodDisruptionBudgets in the manifests.

With --json-lines each line of standard input is a scenario with instance types and prices of its own; each is answered
by one line of JSON before the next one is read.""",
    examples="""\
  gpu-provisioner schedule -f fleet.yaml --region eastus
  kubectl get nodepools,nodes,nodeclaims,ns,pods -A -o json | gpu-provisioner schedule -f - --region eastus
  kubectl get nodepools,nodes,nodeclaims,ns,pods,daemonsets,pdb -A -o json | gpu-provisioner schedule --disrupt -f -
  gpu-provisioner schedule --json-lines < scenarios.jsonl""",
    exit_codes="""\
Exit codes: 0 every Pod has a place, 1 a Pod stays pending, 2 invalid usage.
With --disrupt: 0 done, 2 invalid usage.""",
    arguments=_add_schedule,
    run=_schedule,
)

OFFLINE = (TRY, PLAN, SCHEDULE)
