"""The help texts of all commands: for `--help`, and for docs/reference/commands.md."""

from typing import Literal, NamedTuple

RELEASE_FLAG = "--i-know-the-pool-is-gone"
# The distribution of the commands with `of_try`, which the image does not contain; no package is published.
TRY_DISTRIBUTION = "aks-gpu-provisioner-try"
INSTALL_TRY = (
    "In a checkout of the same version: pip install ./provisioner, or pipx inject aks-gpu-provisioner ./provisioner"
)
DONE_REFUSED_USAGE = "Exit codes: 0 done, 1 refused or failed, 2 invalid usage or settings."


class Command(NamedTuple):
    """`settings`: whether the command accepts the flags of the settings, and whether its help lists them. `of_try`:
    whether it is part of the second distribution."""

    summary: str
    description: str
    exit_codes: str
    examples: str = ""
    settings: Literal["", "accepted", "listed"] = ""
    of_try: bool = False


RUN = Command(
    summary="run the controller (the default)",
    description="""\
Runs the controller. It serves metrics at :8080/metrics, and /healthz and /readyz at :8081. SIGTERM stops it: running
work is cancelled, the Lease is released, the exit code is 0. A second signal ends the process at once.""",
    exit_codes="Exit codes: 0 stopped by a signal, 1 ended by an error, which is logged, 2 invalid usage or settings.",
    settings="listed",
)
TRY = Command(
    summary="run the controller on an embedded cluster and an embedded Azure",
    description="Runs the controller against an embedded Kubernetes API server and an embedded Azure.",
    exit_codes="""\
Exit codes: 0 done (with --once: every expected event was observed), 1 not every expected event was observed,
2 invalid usage, 130 or 143 interrupted with --once.""",
    of_try=True,
)
PLAN = Command(
    summary="validate NodeClaim manifests offline and print the resulting agent pools",
    description="""\
Validates NodeClaim manifests and prints, for each NodeClaim, the request that creates its agent pool, the offerings in
the order in which they are tried, and the resulting Node; or every error with its remedy. The command works offline,
without a cluster, an Azure credential or settings. Values that only the cluster knows are printed as <placeholder>.""",
    examples="""\
  gpu-provisioner plan -f claim.yaml              one file, with any number of documents
  gpu-provisioner plan -f claims/ -f more.json    every .yaml, .yml and .json file of a directory, and a file
  kubectl get nodeclaims -o json | gpu-provisioner plan -f - -o json""",
    exit_codes="Exit codes: 0 no errors, 1 a NodeClaim has errors, 2 invalid usage.",
    of_try=True,
)
SCHEDULE = Command(
    summary="place pods offline and print the machines to buy, with prices",
    description="""\
Places Pods on existing Nodes, on NodeClaims without a Node, and on new machines of NodePools, at list prices. Among all
fleets that take the most Pods it chooses the cheapest one. Prints which Pod goes where, the price an hour, and why each
other Pod stays pending. The command works offline, without a cluster, an Azure credential or settings.

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
)
CHECK = Command(
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
)
DOCTOR = Command(
    summary="print why Nodes lack their GPUs, and what keeps DaemonSets and Jobs away",
    description="""\
Prints why a Node lacks its GPUs: no device plugin is meant for it, the pod of the plugin does not run, or it runs and
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
)
EXPLAIN = Command(
    summary="print what a NodeClaim, a Pod or a NodePool waits for, and why",
    description="""\
Prints why an object is where it is and what happens next, by the functions that decide in the controller:

  NodeClaim   its phase, since when and until when it waits, the next step, its offerings and what failed
  Pod         the machine that the next decision gives it, with its price, and for each NodePool what it would buy
              or why it buys nothing
  NodePool    what each machine costs, why it stays, and what disruption would do now

The command reads the cluster once and writes nothing. It needs the permissions to list nodeclaims, nodes,
agentpoolnodeclasses and customresourcedefinitions, and for a Pod or a NodePool to list nodepools, pods, daemonsets,
namespaces and poddisruptionbudgets; the controller has all of them. With the settings of Azure it also reads the agent
pools, the quota and the VM sizes of the subscription. What was not read, and what only the running controller
remembers, is listed under "Not known". With -f it reads files in place of the cluster.""",
    examples="""\
  gpu-provisioner explain nodeclaim/ws3f2a91c0d
  gpu-provisioner explain pod/default/train              or: -n default pod/train
  gpu-provisioner explain nodepool/a100 -o json
  kubectl -n gpu-provisioner exec deploy/gpu-provisioner -- gpu-provisioner explain np/a100
  kubectl get nodepools,agentpoolnodeclasses,nodes,nodeclaims,ns,pods,daemonsets,pdb -A -o json > cluster.json
  gpu-provisioner explain pod/default/train -f cluster.json""",
    exit_codes="Exit codes: 0 explained, 1 refused or failed, 2 invalid usage or settings.",
    settings="accepted",
)
VALUES = Command(
    summary="print Helm values for an existing AKS cluster",
    description="""\
Prints values of the Helm chart for an existing AKS cluster, read from Azure: region, cloud, OIDC issuer, workload
identity and managed Prometheus, and the client ID of the managed identity. It reads only these, with your own login
(az login), and does not access Kubernetes. Values are printed on stdout; missing features, unknown values, and the
commands to run next on stderr.

--client-id names the identity of the controller, not the identity that reads from Azure.""",
    examples="""\
  gpu-provisioner values --subscription-id SUB --resource-group RG --cluster-name AKS \\
    --image REGISTRY.azurecr.io/gpu-provisioner > values.yaml
  gpu-provisioner values --identity-name NAME              the rest from ARM_SUBSCRIPTION_ID, ARM_RESOURCE_GROUP, …
  gpu-provisioner values --deployment-mode managed         without workload identity, with the node's identity
  gpu-provisioner values -o json                           for a program, without the comments""",
    exit_codes="Exit codes: 0 printed (missing features on stderr), 1 the cluster could not be read, 2 invalid usage.",
    settings="accepted",
)
GC = Command(
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
)
ADOPT = Command(
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
)
RELEASE = Command(
    summary="remove the finalizers of a NodeClaim whose agent pool is gone",
    description="""\
Completes the deletion of a NodeClaim when the controller cannot prove that the agent pool is gone, for example because
the managed cluster was deleted in Azure. The command reads the agent pool from ARM and refuses if it exists: its
machine would be billed without a NodeClaim. Otherwise it removes the finalizer karpenter.sh/termination from the
NodeClaim's Nodes and from the NodeClaim, and no other finalizer, after an Event (FinalizerRemovedManually) that names
the user. The chart's admission policies permit this to cluster administrators and to protectionPolicy.users.""",
    examples=f"""\
  gpu-provisioner release ws3f2a91c0d                              print what would be done; exit code 2
  gpu-provisioner release ws3f2a91c0d {RELEASE_FLAG}    do it""",
    exit_codes=DONE_REFUSED_USAGE,
    settings="accepted",
)
UNINSTALL = Command(
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

The command uses the permissions of the caller: list nodepools, agentpoolnodeclasses, nodeclaims, nodes,
customresourcedefinitions and leases, delete all of these except nodes and customresourcedefinitions, and read the
managed cluster and its agent pools in Azure.""",
    examples="""\
  gpu-provisioner uninstall --drain --dry-run          list what would be deleted, and how
  gpu-provisioner uninstall --drain                    print the list, ask, delete, wait
  gpu-provisioner uninstall --drain --yes -o json      the same in a script""",
    exit_codes="""\
Exit codes: 0 nothing remains, 1 something remains or the command was refused, 2 invalid usage or settings,
3 only the Lease of a running controller remains.""",
    settings="accepted",
)
CONFIG = Command(
    summary="print every setting with its value and its source",
    description="""\
Prints every setting with its value and its source: flag, environment variable, file or default. Settings that are
missing or invalid are marked with ✗. Credentials in addresses are masked.""",
    exit_codes="Exit codes: 0 done, 2 invalid usage or settings, all of them reported at once.",
    settings="listed",
)
COMPLETION = Command(
    summary="print a completion script for a shell",
    description="Prints a script that completes commands, flags and their choices in a shell.",
    examples="""\
  eval "$(gpu-provisioner completion bash)"     in ~/.bashrc
  eval "$(gpu-provisioner completion zsh)"      in ~/.zshrc, after compinit
  gpu-provisioner completion fish | source      in ~/.config/fish/config.fish""",
    exit_codes="Exit codes: 0 done, 2 invalid usage.",
)
VERSION = Command(summary="print the version", description="Prints the version.", exit_codes="Exit code: 0.")
HELP = Command(
    summary="print the help of a command",
    description="Prints the help of a command, or the list of commands.",
    exit_codes="Exit codes: 0 done, 2 unknown command.",
)

COMMANDS = {
    "run": RUN,
    "try": TRY,
    "plan": PLAN,
    "schedule": SCHEDULE,
    "check": CHECK,
    "doctor": DOCTOR,
    "explain": EXPLAIN,
    "values": VALUES,
    "gc": GC,
    "adopt": ADOPT,
    "release": RELEASE,
    "uninstall": UNINSTALL,
    "config": CONFIG,
    "completion": COMPLETION,
    "version": VERSION,
    "help": HELP,
}
