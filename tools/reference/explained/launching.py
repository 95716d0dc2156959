"""Ready, and Launched as far as Azure and the cluster decide it."""

from provisioner.api import reasons as r

from .row import bad, good, waiting

LAUNCHED = "Launched"
READY = "Ready"

LAUNCHING = (
    good(READY, r.READY, "Launched, Registered and Initialized are True: pods can use the Node and its GPUs."),
    bad(
        READY,
        r.UNHEALTHY_DEPENDENTS,
        "At least one of Launched, Registered and Initialized is False; the message lists those that are not True.",
        "The condition that is False: its message has the cause.",
        "What that condition's reason asks for.",
    ),
    waiting(
        READY,
        r.RECONCILING_DEPENDENTS,
        "None of the three is False, and at least one is not True yet.",
        "The condition that is Unknown.",
        "Usually nothing: wait. Past its deadline the message says `overdue`.",
    ),
    *(
        waiting(
            on,
            r.AWAITING,
            "Nobody has looked at this claim yet.",
            "`kubectl logs` of the controller, and `gpu-provisioner check`. Is the claim's node class ours?",
            "If it stays for more than seconds: is the controller running, and does it hold the lease?",
        )
        for on in (READY, LAUNCHED, "Registered", "Initialized")
    ),
    good(LAUNCHED, r.LAUNCHED, "The agent pool runs, or its Node is here, which proves the same earlier."),
    waiting(
        LAUNCHED,
        r.CREATING,
        "Azure has accepted the agent pool and is building it. The message has ARM's state and since when.",
        "`az aks nodepool show --name POOL`. AKS usually takes 3 to 8 minutes.",
        "Wait. Past `--creating-deadline` the message says `overdue`: the machine is not destroyed for it. Delete the"
        " claim if it is no longer wanted.",
    ),
    bad(
        LAUNCHED,
        r.CREATE_FAILED,
        "The agent pool ended in a failed state, and ARM tells no cause (any longer).",
        "The activity log of the cluster, and `az aks nodepool show --name POOL`.",
        "The pool is removed and asked for again by itself, after a while that doubles up to an hour. If it repeats,"
        " look for a policy, a network or an image problem.",
    ),
    waiting(
        LAUNCHED,
        r.POOL_DELETED,
        "Somebody else deleted the agent pool before it ever ran. Who deletes a pool means the machine, so the claim"
        " goes with it.",
        "The activity log of the cluster says who deleted it.",
        "Make a new claim if the machine is still wanted; KAITO does so by itself.",
    ),
    waiting(
        LAUNCHED,
        r.ADOPTION_REFUSED,
        "The annotation `gpu-provisioner.sh/adopt` names a pool that this claim may not take over. The message says"
        " why.",
        "`az aks nodepool show --name POOL --query tags` has the UID that the pool bears.",
        "Remove the annotation, or let `gpu-provisioner adopt NAME` write the right one; it says why if there is none.",
    ),
    waiting(
        LAUNCHED,
        r.PREVIOUS_POOL_LEFT,
        "An agent pool of this name bears the mark of an earlier claim. It is removed first.",
        "`gpu-provisioner gc` says what that removal waits for.",
        "Wait. If the claim was restored from a backup and the pool is its own: `gpu-provisioner adopt NAME`.",
    ),
    waiting(
        LAUNCHED,
        r.LEGACY_POOL_LEFT,
        "An agent pool of this name was made by Azure/gpu-provisioner for an earlier claim.",
        "`gpu-provisioner gc`, and the setting `--legacy-pools`.",
        "With `collect`, wait: it is removed first. With `report`, remove it yourself or rename the claim.",
    ),
    bad(
        LAUNCHED,
        r.POOL_NAME_TAKEN,
        "An agent pool of this name exists and is not ours, or another claim has the same derived pool name. Nothing"
        " is written to it.",
        "`az aks nodepool show --name POOL --query tags`.",
        "Use another name for the claim.",
    ),
    waiting(
        LAUNCHED,
        r.LEFTOVER_NODE,
        "A Node of an earlier machine still bears this pool name, so that a new machine could be mistaken for it.",
        "`kubectl get nodes -L agentpool,gpu-provisioner.sh/nodeclaim-uid`.",
        "Wait if it bears our mark: it goes by itself. If it is not ours, remove it or use another name.",
    ),
    waiting(
        LAUNCHED,
        r.CLUSTER_NOT_RUNNING,
        "The managed cluster is stopped, starting or being updated as a whole; no pool can be made now.",
        "`az aks show --name CLUSTER --resource-group GROUP --query powerState`.",
        "`az aks start`. The claim goes on by itself.",
    ),
    waiting(
        LAUNCHED,
        r.POOL_LIMIT_REACHED,
        "As many agent pools exist as may: by `--max-agent-pools`, or by AKS's limit less what is left to others. The"
        " message has the claim's place in line.",
        "`az aks nodepool list --output table`.",
        "Delete claims that are not needed, or raise `--max-agent-pools`.",
    ),
    bad(
        LAUNCHED,
        r.POOL_LIMIT_REACHED,
        "AKS itself refuses another agent pool for this cluster.",
        "`az aks nodepool list --output table`.",
        "Delete unused agent pools; the claim tries again by itself.",
    ),
    waiting(
        LAUNCHED,
        r.NODE_LIMIT_REACHED,
        "The cluster has as many Nodes as its network plugin allows (400 with kubenet).",
        "`kubectl get nodes | wc -l`.",
        "Delete claims, or scale other agent pools down.",
    ),
    waiting(
        LAUNCHED,
        r.CREATE_RATE_LIMITED,
        "More claims came at once than `--max-creates-per-minute` allows. The message has this claim's place in line.",
        "Who makes so many claims: `kubectl get nodeclaims`.",
        "Wait, or raise the setting if the burst was meant.",
    ),
)
