"""Reasons of Ready, and of Launched except for those of validation."""

from provisioner.api import reasons as r

from .row import Reason, is_false, is_true, is_unknown

LAUNCHED = "Launched"
READY = "Ready"
STALLED = "Stalled"

LAUNCH = (
    is_true(READY, r.READY, "Launched, Registered and Initialized are True. Pods can use the Node and its GPUs."),
    is_false(
        READY,
        r.UNHEALTHY_DEPENDENTS,
        "At least one of Launched, Registered and Initialized is False. The message lists those that are not True.",
        "The message of the condition that is False.",
        "The remedy of that condition's reason.",
    ),
    is_unknown(
        READY,
        r.RECONCILING_DEPENDENTS,
        "None of the three conditions is False, and at least one is not True yet.",
        "The condition that is Unknown.",
        "Usually none: wait. After the deadline, the message contains `overdue`.",
    ),
    *(
        is_unknown(
            on,
            r.AWAITING,
            "The controller has not reconciled this NodeClaim yet.",
            "`kubectl logs` of the controller, `gpu-provisioner check`, and the node class of the NodeClaim.",
            "If the reason remains for more than a few seconds, check that the controller is running and that a replica"
            " holds the Lease.",
        )
        for on in (READY, LAUNCHED, "Registered", "Initialized")
    ),
    Reason(
        on=STALLED,
        statuses=("True",),
        name=r.RECONCILE_FAILED,
        meaning="Reconciling this NodeClaim has failed at least five times in a row. It is retried with backoff.",
        look="The error in the message, and the traceback of `reconcile failed` in the controller's log.",
        remedy="Remove the cause: often a webhook or a permission. Report an error of the program with its traceback.",
    ),
    is_unknown(
        LAUNCHED,
        r.FIELD_UNREADABLE,
        "A field of the NodeClaim that the API server accepts cannot be decoded. No agent pool is created.",
        "The field in the message.",
        "Recreate the NodeClaim without the field.",
    ),
    is_true(LAUNCHED, r.LAUNCHED, "The agent pool is running, or its Node exists, which can be visible earlier."),
    Reason(
        on=LAUNCHED,
        statuses=("Unknown", "False"),
        name=r.CREATING,
        meaning="Unknown: Azure accepted the agent pool and is creating it. The message contains ARM's state and the"
        " start time. False: no agent pool is requested, because another one of the same offering, which the message"
        " names, has been created for unusually long.",
        look="`az aks nodepool show --name POOL`. AKS usually takes 3 to 8 minutes.",
        remedy="Wait. After `--creating-deadline`, the message contains `overdue`; the machine is not deleted. Delete"
        " the NodeClaim if it is no longer needed.",
    ),
    is_false(
        LAUNCHED,
        r.CREATE_FAILED,
        "The agent pool is in a failed state, and ARM does not return a cause, or no longer returns it.",
        "The activity log of the cluster, and `az aks nodepool show --name POOL`.",
        "None at first: the controller deletes the pool and creates it again, after a delay that doubles up to one"
        " hour. If the failure repeats, look for an Azure Policy, a network problem or an image problem.",
    ),
    is_unknown(
        LAUNCHED,
        r.POOL_DELETED,
        "Another client deleted the agent pool before it was running. The controller treats this as a deletion of the"
        " machine and deletes the NodeClaim.",
        "The activity log of the cluster, which names the client.",
        "Create a new NodeClaim if the machine is still needed. KAITO does this automatically.",
    ),
    is_unknown(
        LAUNCHED,
        r.ADOPTION_REFUSED,
        "The annotation `gpu-provisioner.sh/adopt` names an agent pool that this NodeClaim cannot adopt. The message"
        " contains the cause.",
        "`az aks nodepool show --name POOL --query tags` shows the NodeClaim's UID in the tags of the pool.",
        "Remove the annotation, or run `gpu-provisioner adopt NAME`: it writes the correct annotation, or reports why"
        " there is none.",
    ),
    is_unknown(
        LAUNCHED,
        r.PREVIOUS_POOL_LEFT,
        "An agent pool of this name belongs to a previous NodeClaim. It is deleted first.",
        "`gpu-provisioner gc` shows what the deletion is waiting for.",
        "Wait. If the NodeClaim was restored from a backup and the pool is its own, run `gpu-provisioner adopt NAME`.",
    ),
    is_unknown(
        LAUNCHED,
        r.LEGACY_POOL_LEFT,
        "Azure/gpu-provisioner created an agent pool of this name for a previous NodeClaim.",
        "`gpu-provisioner gc`, and the setting `--legacy-pools`.",
        "With `collect`, wait: the pool is deleted first. With `report`, delete the pool, or use another name for the"
        " NodeClaim.",
    ),
    is_false(
        LAUNCHED,
        r.POOL_NAME_TAKEN,
        "An agent pool of this name exists that the controller does not manage, or another NodeClaim has the same"
        " derived pool name. The controller does not modify the pool.",
        "`az aks nodepool show --name POOL --query tags`.",
        "Create the NodeClaim under another name.",
    ),
    is_unknown(
        LAUNCHED,
        r.LEFTOVER_NODE,
        "A Node of a previous machine still has this pool name. The controller could not distinguish a new machine from"
        " it.",
        "`kubectl get nodes -L agentpool,gpu-provisioner.sh/nodeclaim-uid`.",
        "Wait if the Node has the label `gpu-provisioner.sh/nodeclaim-uid`: the controller removes it. Otherwise delete"
        " the Node, or use another name.",
    ),
    is_unknown(
        LAUNCHED,
        r.CLUSTER_NOT_RUNNING,
        "The managed cluster is stopped, starting, or being updated. No agent pool can be created.",
        "`az aks show --name CLUSTER --resource-group GROUP --query powerState`.",
        "Start the cluster with `az aks start`. The controller continues automatically.",
    ),
    is_unknown(
        LAUNCHED,
        r.WRONG_CLUSTER,
        "The Nodes of this API server are in other resource groups than the machines of the managed cluster that the"
        " settings name. Nothing is created or deleted until they match.",
        "`gpu-provisioner check`; `az aks show --name CLUSTER --resource-group GROUP --query nodeResourceGroup`.",
        "Correct `azure.subscriptionId`, `azure.resourceGroup` and `azure.clusterName` in the values of the chart.",
    ),
    is_unknown(
        LAUNCHED,
        r.POOL_LIMIT_REACHED,
        "The number of agent pools is at its limit: `--max-agent-pools`, or AKS's limit minus the reserve for other"
        " pools. The message contains the position in the queue.",
        "`az aks nodepool list --output table`.",
        "Delete NodeClaims that are not needed, or raise `--max-agent-pools`.",
    ),
    is_false(
        LAUNCHED,
        r.POOL_LIMIT_REACHED,
        "AKS rejects another agent pool for this cluster.",
        "`az aks nodepool list --output table`.",
        "Delete unused agent pools. The controller retries automatically.",
    ),
    is_unknown(
        LAUNCHED,
        r.NODE_LIMIT_REACHED,
        "The cluster has the maximum number of Nodes of its network plugin (400 with kubenet).",
        "`kubectl get nodes | wc -l`.",
        "Delete NodeClaims, or scale down other agent pools.",
    ),
    is_unknown(
        LAUNCHED,
        r.CREATE_RATE_LIMITED,
        "More NodeClaims were created than `--max-creates-per-minute` allows. The message contains the position in the"
        " queue.",
        "`kubectl get nodeclaims`, to find out what creates them.",
        "Wait, or raise the setting if the number of NodeClaims is intended.",
    ),
    is_unknown(
        LAUNCHED,
        r.NODECLASS_NOT_FOUND,
        "The AgentPoolNodeClass that the NodeClaim refers to does not exist.",
        "`kubectl get agentpoolnodeclasses`.",
        "Create it, or recreate the NodeClaim with another `spec.nodeClassRef.name`.",
    ),
    is_unknown(
        LAUNCHED,
        r.NODECLASS_TERMINATING,
        "The AgentPoolNodeClass is being deleted. It exists until no NodeClaim refers to it.",
        "`kubectl get agentpoolnodeclass NAME -o yaml`.",
        "Recreate the NodeClaim with another node class.",
    ),
    is_unknown(
        LAUNCHED,
        r.NODECLASS_NOT_READY,
        "The AgentPoolNodeClass is not Ready, not validated yet, or cannot be read. The message contains the cause.",
        "`kubectl describe agentpoolnodeclass NAME`.",
        "Correct the field in the message. The NodeClaim continues as soon as the node class is Ready.",
    ),
    is_false(
        LAUNCHED,
        r.NODECLASS_CONTRADICTS_OFFERING,
        "A field of the AgentPoolNodeClass contradicts the size or the capacity type of the NodeClaim.",
        "The field in the message.",
        "Correct the field of the node class, and the NodeClaim is launched; or recreate the NodeClaim with another"
        " requirement or node class.",
    ),
)
