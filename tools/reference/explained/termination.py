"""Reasons of the termination conditions: Drained, VolumesDetached and InstanceTerminating."""

from provisioner.api import reasons as r

from .row import is_false, is_true, is_unknown

DRAINED, VOLUMES, INSTANCE = "Drained", "VolumesDetached", "InstanceTerminating"

TERMINATION = (
    is_unknown(
        DRAINED,
        r.DRAINING,
        "Pods are being evicted from the Node, or the pods on the Node cannot be listed. The message names pods that"
        " block the drain, and the cause: a PodDisruptionBudget, do-not-disrupt, or a webhook.",
        "`kubectl get pods --all-namespaces --field-selector spec.nodeName=NODE` and `kubectl get pdb -A`.",
        "Change the budget, or delete the pod. To limit the duration of a drain, use `terminationGracePeriod` in"
        " NodeClaims, or set the annotation `karpenter.sh/nodeclaim-termination-timestamp` on this one.",
    ),
    is_true(DRAINED, r.DRAINED, "No pod that must be evicted remains on the Node."),
    is_unknown(
        VOLUMES,
        r.AWAITING_VOLUME_DETACHMENT,
        "Volumes are still attached to the machine. Deleting it now could corrupt them or delay their next attachment.",
        "`kubectl get volumeattachments`.",
        "Wait: Kubernetes forces the detachment after 6 minutes. If a volume remains attached, check the controller of"
        " the storage driver.",
    ),
    is_true(VOLUMES, r.VOLUMES_DETACHED, "No volume is attached to the machine."),
    is_false(
        VOLUMES,
        r.TERMINATION_GRACE_PERIOD_ELAPSED,
        "The termination grace period expired while volumes were attached. The machine is deleted anyway.",
        "`kubectl get volumeattachments`.",
        "None for the NodeClaim. Check that the volumes can be attached to other Nodes.",
    ),
    is_true(
        INSTANCE,
        r.INSTANCE_TERMINATING,
        "The agent pool is being deleted. There is a message only after `--deleting-deadline`; then check `az aks"
        " nodepool show --name POOL`.",
    ),
    is_unknown(
        INSTANCE,
        r.WRONG_CLUSTER,
        "The Nodes of this API server are in other resource groups than the machines of the managed cluster that the"
        " settings name. Nothing is deleted until they match.",
        "`gpu-provisioner check`; `az aks show --name CLUSTER --resource-group GROUP --query nodeResourceGroup`.",
        "Correct `azure.subscriptionId`, `azure.resourceGroup` and `azure.clusterName` in the values of the chart.",
    ),
    is_unknown(
        INSTANCE,
        r.POOL_FAILED,
        "Azure accepted the deletion of the agent pool, and its operation ended without effect and without a cause.",
        "`az aks nodepool show --name POOL`, and the activity log.",
        "Wait: the controller deletes the pool again. If it fails again and again, remove what blocks it in Azure.",
    ),
    is_false(
        INSTANCE,
        r.INSTANCE_TERMINATED,
        "The agent pool is deleted and no longer billed. The Node or the NodeClaim remains, because it has another"
        " finalizer, or because the API server rejects its update.",
        "The finalizers in the message; `kubectl get node NODE -o jsonpath='{.metadata.finalizers}'`.",
        "Check the controller that owns the finalizer.",
    ),
)
