"""The commands that read a cluster or Azure and write nothing."""

from provisioner.cli.arguments import PROGRAM, Completes, Parser, add, add_files, add_output
from provisioner.cli.command import Command, Invocation
from provisioner.cli.output import TEXT_FORMATS, VALUES_FORMATS
from provisioner.settings import Settings, SettingsError


def _add_check(parser: Parser) -> None:
    text = "a VM size; may be given repeatedly"
    add(parser, "--size", action="append", default=[], metavar="SIZE", help=text, completes=Completes.SIZES)
    add_output(parser)


def _check(call: Invocation) -> int:
    """Invalid settings are one of its results."""
    settings: Settings | SettingsError
    try:
        settings = call.settings()
    except SettingsError as error:
        settings = error
    from provisioner.cli.commands import check

    return call.wait(check.run(settings, call.env, call.arguments, call.console))


def _add_doctor(parser: Parser) -> None:
    text = "a NodeClaim or its Node (all that lack GPUs or are not initialized)"
    add(parser, "name", nargs="?", default="", metavar="NAME", help=text, completes=Completes.NODECLAIMS)
    add_output(parser)


def _doctor(call: Invocation) -> int:
    settings = call.settings()
    from provisioner.cli.commands import doctor
    from provisioner.operator.azure import CLOUD

    return call.wait(doctor.connect(settings, CLOUD, call.arguments, call.console))


def _add_explain(parser: Parser) -> None:
    text = "nodeclaim/NAME, pod/NAMESPACE/NAME, nodepool/NAME (short: nc, po, np), a name, or an agent pool or Node"
    add(parser, "name", metavar="TYPE/NAME", help=text, completes=Completes.EXPLAINED)
    text, named = "the namespace of a Pod (%(default)s)", Completes.NAMESPACES
    add(parser, "-n", "--namespace", default="default", metavar="NAME", help=text, completes=named)
    add_files(parser, "manifests to read in place of the cluster; may be given repeatedly", default=[])
    add_output(parser, TEXT_FORMATS)


def _explain(call: Invocation) -> int:
    settings, release = call.settings_and_release()
    from provisioner.cli.commands import explain

    return call.wait(explain.run(settings, release, call.arguments, call.typed, call.console))


def _add_cost(parser: Parser) -> None:
    text = "nodepool, nodeclaim, namespace (of Pods), or the key of a label of Pods (%(default)s)"
    parser.add_argument("--by", default="nodepool", metavar="WHAT", help=text)
    add_files(parser, "manifests to read in place of the cluster; may be given repeatedly", default=[])
    add_output(parser)


def _cost(call: Invocation) -> int:
    settings, release = call.settings_and_release()
    from provisioner.cli.commands import cost

    return call.wait(cost.run(settings, release, call.arguments, call.typed, call.console))


def _add_values(parser: Parser) -> None:
    for flag, text in (("release", "the Helm release"), ("namespace", "the namespace of the Helm release")):
        parser.add_argument(f"--{flag}", default=PROGRAM, metavar="NAME", help=f"{text} (%(default)s)")
    text = "the repository of the controller's image, without a tag"
    parser.add_argument("--image", default="", metavar="REPOSITORY", help=text)
    parser.add_argument("--identity-name", default=PROGRAM, metavar="NAME", help="the managed identity (%(default)s)")
    text = "its resource group (the cluster's resource group)"
    parser.add_argument("--identity-resource-group", default="", metavar="NAME", help=text)
    add_output(parser, VALUES_FORMATS)


def _values(call: Invocation) -> int:
    settings = call.settings()
    from provisioner.cli.commands import values

    return call.wait(values.run(settings, call.arguments, call.console))


CHECK = Command(
    name="check",
    summary="verify settings, access to the cluster and to Azure, and quota",
    description="""\
Verifies everything that the controller needs: its settings; the API server, the CRD, the permissions, the Lease; the
Azure credential, the managed cluster, the role assignments, and quota and restrictions of the VM sizes in use. The
command writes nothing.

✓ passed   ✗ failed, with the remedy   - unknown or unusual, with the reason

Permissions are verified for the caller: in the controller's Pod for the controller, elsewhere for your own login.""",
    examples="""\
  gpu-provisioner check                                      the VM sizes that NodeClaims request
  gpu-provisioner check --size Standard_NC24ads_A100_v4      and one more machine of this size
  kubectl -n gpu-provisioner exec deploy/gpu-provisioner -- gpu-provisioner check -o json""",
    exit_codes="Exit codes: 0 nothing failed, 2 invalid usage, 3 a check failed.",
    settings="accepted",
    arguments=_add_check,
    run=_check,
    kube=True,
    release=True,
)

DOCTOR = Command(
    name="doctor",
    summary="print why Nodes lack their GPUs, and what keeps DaemonSets and Jobs away",
    description="""\
Prints why a Node lacks its GPUs: no device plugin selects it, the pod of the plugin does not run, or it runs and
advertises no device. Names the DaemonSet, the taint or label that keeps it away, and the toleration to add to its
manifest. Then lists all other DaemonSets and Jobs that should run on the Node and do not, such as those of GPU Kernel
Manager, DCGM exporter and monitoring agents.

Without NAME the report has all NodeClaims whose Node lacks GPUs or is not initialized. The command reads the API server
directly and writes nothing. It needs no settings of Azure, and the permissions to list nodeclaims, nodes, pods,
daemonsets, jobs, agentpoolnodeclasses, and resourceslices of machines with gpu.mode DRA, which the chart grants the
controller (doctor.enabled).""",
    examples="""\
  gpu-provisioner doctor                   all Nodes that lack GPUs
  gpu-provisioner doctor ws3f2a91c0d       one NodeClaim; the name of its Node selects the same
  gpu-provisioner doctor -o json           the same for a program""",
    exit_codes="""\
Exit codes: 0 every Node in the report has its GPUs, 1 refused or failed, 2 invalid usage or settings,
3 a Node lacks GPUs or is not initialized.""",
    settings="accepted",
    arguments=_add_doctor,
    run=_doctor,
    kube=True,
    acts=False,
    azure=False,
)

EXPLAIN = Command(
    name="explain",
    summary="print what a NodeClaim, a Pod or a NodePool waits for, and why",
    description="""\
Prints the state of an object, its cause and the next step, as the functions of the controller decide them:

  NodeClaim   its phase, since when and until when it waits, the next step, its offerings and what failed
  Pod         the machine that the next decision gives it, with its price, and for each NodePool what it would buy
              or why it buys nothing
  NodePool    what each machine costs, why it stays, and what disruption would do now

The command reads the cluster once and writes nothing. It needs the permissions to list nodeclaims, nodes,
agentpoolnodeclasses and customresourcedefinitions, and for a Pod or a NodePool to list nodepools, pods, daemonsets,
namespaces and poddisruptionbudgets; the controller has all of them. With your login (az login) it also reads the agent
pools, the quota and the VM sizes of the subscription. What was not read, and what only the running controller
has in memory, is listed under "Not known". With -f it reads files in place of the cluster.""",
    examples="""\
  gpu-provisioner explain nodeclaim/ws3f2a91c0d
  gpu-provisioner explain cv172b0x9q3z      the NodeClaim of an agent pool of the Azure portal, or of a Node
  gpu-provisioner explain pod/default/train              or: -n default pod/train
  gpu-provisioner explain nodepool/a100 -o json
  kubectl -n gpu-provisioner exec deploy/gpu-provisioner -- gpu-provisioner explain np/a100
  kubectl get nodepools,agentpoolnodeclasses,nodes,nodeclaims,ns,pods,daemonsets,pdb -A -o json > cluster.json
  gpu-provisioner explain pod/default/train -f cluster.json""",
    exit_codes="Exit codes: 0 explained, 1 refused or failed, 2 invalid usage or settings.",
    settings="accepted",
    arguments=_add_explain,
    run=_explain,
    kube=True,
    release=True,
    # Azure is read only if its settings are complete.
    acts=False,
    azure=False,
)

COST = Command(
    name="cost",
    summary="print what the machines cost now, who requests their GPUs, and what is idle",
    description="""\
Prints what the machines of this controller cost now, in USD an hour and a day (24 hours), by NodePool, by NodeClaim, or
by the Pods that request their GPUs. Prices are those by which the controller decides: list prices, retail prices that
it read, those of --prices, and NodeOverlays. They are for the machines alone, without disks, network and taxes.

  MACHINES    from the creation of the agent pool until NodeClaim and Node are gone; <none>: without a NodePool
  REQUESTED   the GPUs that Pods on the machines request, as extended resources or by ResourceClaims
  IDLE        the share of the GPUs that no Pod requests, and what it costs; whether Pods use their GPUs is not known
  SAVED       by how much the list price on demand exceeds the price, as of spot machines and by NodeOverlays
  UNPRICED    machines without a known price: no cost includes them

By namespace or label, the cost of a machine is divided among the Pods on it by the GPUs that they request. A device
counts as one of all devices of its Node, so that a slice is a part of a machine. <none>: Pods without the label.
<idle>: what no Pod requests. <no GPUs>: machines without GPUs, which are not divided. A machine counts in each row that
has a part of it, and once in the total.

The command reads the cluster once, writes nothing, and needs no settings of Azure. It needs the permissions to list
nodeclaims, nodes, pods, customresourcedefinitions, nodepools and nodeoverlays, and resourceclaims if Pods have some;
the controller has all of them. It reads --prices of the controller from the Helm release, with the permission to list
deployments, and its retail prices from the Lease, with the permission to get leases.""",
    examples="""\
  gpu-provisioner cost
  gpu-provisioner cost --by namespace
  gpu-provisioner cost --by app.kubernetes.io/name -o json
  kubectl get nodepools,nodeoverlays,nodes,nodeclaims,pods -A -o json > cluster.json
  gpu-provisioner cost --by nodeclaim -f cluster.json""",
    exit_codes="Exit codes: 0 printed, 1 refused or failed, 2 invalid usage or settings.",
    settings="accepted",
    arguments=_add_cost,
    run=_cost,
    acts=False,
    azure=False,
    kube=True,
    release=True,
)

VALUES = Command(
    name="values",
    summary="print Helm values for an existing AKS cluster",
    description="""\
Prints values of the Helm chart for an existing AKS cluster, read from Azure: region, cloud, OIDC issuer, workload
identity and managed Prometheus, and the client ID of the managed identity. It reads only these, with your own login
(az login), and does not access Kubernetes. Values are printed on stdout. If a feature of the cluster or a value is
missing, stderr has the cause and the command that makes or finds it, and the exit code is 3; otherwise it has the
commands to run next.

--client-id names the identity of the controller, not the identity that reads from Azure.""",
    examples="""\
  gpu-provisioner values --subscription-id SUB --resource-group RG --cluster-name AKS \\
    --image REGISTRY.azurecr.io/gpu-provisioner > values.yaml
  gpu-provisioner values --identity-name NAME              the rest from ARM_SUBSCRIPTION_ID, ARM_RESOURCE_GROUP, …
  gpu-provisioner values --deployment-mode managed         without workload identity, with the node's identity
  gpu-provisioner values -o json                           for a program, without the comments""",
    exit_codes="""\
Exit codes: 0 printed, 1 the cluster could not be read, 2 invalid usage, 3 printed, but something is missing.""",
    settings="accepted",
    arguments=_add_values,
    run=_values,
    # The login is the caller's own.
    acts=False,
)

READING = (CHECK, DOCTOR, EXPLAIN, COST, VALUES)
