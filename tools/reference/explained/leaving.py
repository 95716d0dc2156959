"""Drained, VolumesDetached and InstanceTerminating: a claim's way out."""

from provisioner.api import reasons as r

from .row import bad, good, waiting

DRAINED, VOLUMES, INSTANCE = "Drained", "VolumesDetached", "InstanceTerminating"

LEAVING = (
    waiting(
        DRAINED,
        r.DRAINING,
        "Pods are asked to leave the Node, or what is on it cannot be read. The message names pods that do not leave"
        " by themselves, and why (a budget, do-not-disrupt, a webhook).",
        "`kubectl get pods --all-namespaces --field-selector spec.nodeName=NODE` and `kubectl get pdb -A`.",
        "Free the budget or delete the pod. To bound it, use `terminationGracePeriod` in claims, or annotate this one"
        " `karpenter.sh/nodeclaim-termination-timestamp` with a time.",
    ),
    good(DRAINED, r.DRAINED, "No pod that has to leave is on the Node any longer."),
    waiting(
        VOLUMES,
        r.AWAITING_VOLUME_DETACHMENT,
        "Volumes are still attached to the machine; deleting it now could damage them or delay their next use.",
        "`kubectl get volumeattachments`.",
        "Wait; Kubernetes itself forces it after 6 minutes. If it stays, see the storage driver's controller.",
    ),
    good(VOLUMES, r.VOLUMES_DETACHED, "No volume is attached to the machine any longer."),
    bad(
        VOLUMES,
        r.TERMINATION_GRACE_PERIOD_ELAPSED,
        "The termination time has passed with volumes attached: the machine goes all the same.",
        "`kubectl get volumeattachments`.",
        "Nothing for the claim; check that the volumes are usable elsewhere.",
    ),
    good(
        INSTANCE,
        r.INSTANCE_TERMINATING,
        "The agent pool is being deleted. A message appears only past `--deleting-deadline`; then see `az aks nodepool"
        " show --name POOL`.",
    ),
    bad(
        INSTANCE,
        r.INSTANCE_TERMINATED,
        "The agent pool is proven gone, and something keeps the Node or the claim: another finalizer, or an API server"
        " that refuses. Nothing is billed any more.",
        "The message names the finalizers; `kubectl get node NODE -o jsonpath='{.metadata.finalizers}'`.",
        "Let the owner of that finalizer release it.",
    ),
)
