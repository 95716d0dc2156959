"""Registered and Initialized: from a machine to a Node that pods can use, and the way back."""

from provisioner.api import reasons as r

from .row import bad, good, lost, waiting

REGISTERED = "Registered"
INITIALIZED = "Initialized"
DESCRIBE = "`kubectl describe node NODE`."

SERVING = (
    good(REGISTERED, r.REGISTERED, "The Node is here and is the claim's: finalizer, owner, labels and taints are set."),
    waiting(
        REGISTERED,
        r.NODE_NOT_FOUND,
        "The agent pool runs, and no Node of it has appeared in the cluster.",
        "`az aks nodepool show --name POOL`, and whether other new Nodes of the cluster appear.",
        "Wait some minutes. Past `--registration-deadline` check the subnet, outbound access (proxy, firewall, DNS) and"
        " the pool's scale set. If the pool was scaled to 0, the message has the command that undoes it.",
    ),
    bad(
        REGISTERED,
        r.MULTIPLE_NODES_FOUND,
        "More than one Node belongs to this pool: somebody scaled it. Which of them is the claim's cannot be told.",
        "`kubectl get nodes -l agentpool=POOL`.",
        "`az aks nodepool scale --name POOL --node-count 1`, or delete the claim: all machines go with it.",
    ),
    waiting(
        REGISTERED,
        r.NODE_DELETING,
        "The Node of a claim that was taken over is being deleted, because Kubernetes collected it with its former"
        " owner.",
        DESCRIBE,
        "Its pods run on, and the machine stays. Delete the claim once the machine may be replaced.",
    ),
    *(
        waiting(
            on,
            r.NODE_UPDATE_REFUSED,
            "The API server refuses our change to the Node: a missing right or a policy of the cluster.",
            "`kubectl auth can-i patch nodes --as system:serviceaccount:NAMESPACE:NAME`, and admission webhooks.",
            "Grant what the chart grants, or exempt the controller's service account from the policy.",
        )
        for on in (REGISTERED, INITIALIZED)
    ),
    *(
        waiting(
            on,
            r.POOL_FAILED,
            "The agent pool failed before its Node was usable; the claim begins anew.",
            "The Launched condition has the cause.",
            "Wait: the pool is removed and asked for again.",
        )
        for on in (REGISTERED, INITIALIZED)
    ),
    good(
        INITIALIZED, r.INITIALIZED, "The Node is Ready, free of startup taints, and all promised GPUs are allocatable."
    ),
    lost(
        INITIALIZED,
        r.NODE_NOT_READY,
        "The Node's Ready condition is not True. The message has the kubelet's own reason and since when.",
        DESCRIBE + " The Events of the Node tell whether AKS's auto-repair is at work.",
        "Wait for the kubelet. With `NodeRepair` on, a Node that stays so for 10 minutes (25 while AKS repairs it) is"
        " replaced; `repair waits` in the message says what holds that back.",
    ),
    lost(
        INITIALIZED,
        r.STARTUP_TAINTS_EXIST,
        "A startup taint of the claim is still on the Node.",
        DESCRIBE,
        "Whoever owns that taint removes it when it is done; is its DaemonSet there and tolerating the Node's taints?",
    ),
    lost(
        INITIALIZED,
        r.KNOWN_EPHEMERAL_TAINTS_EXIST,
        "The Node bears a taint that Kubernetes or Azure sets while a machine boots.",
        DESCRIBE,
        "Usually nothing: it goes within a minute. If not, see the cloud node manager and the node controller.",
    ),
    waiting(
        INITIALIZED,
        r.RESOURCE_NOT_REGISTERED,
        "The Node does not show the GPUs that its size promises, or another resource that the claim asked for. The"
        " message has how many were seen and expected.",
        "`kubectl get node NODE -o jsonpath='{.status.allocatable}'` and the device plugin's pod on that Node.",
        "Is a device plugin installed, and does it tolerate the claim's taints? See"
        " [GPU Operator and device plugin](../how-to/device-plugin.md). To go without: annotate the claim"
        " `gpu-provisioner.sh/gpu-readiness=report`.",
    ),
    bad(
        INITIALIZED,
        r.GPU_UNAVAILABLE,
        "A Node that was usable has shown fewer GPUs than it should for 6 minutes.",
        "The device plugin's pod on that Node, `nvidia-smi`, and Xid errors in the kernel's log.",
        "Restart the device plugin. If the GPU itself is broken, delete the claim: its owner makes another.",
    ),
    bad(
        INITIALIZED,
        r.NODE_LOST,
        "The claim's Node is gone or is being deleted, and the machine was not given up yet.",
        "`kubectl get nodes -L agentpool`, and whether the cluster is being stopped or the pool was scaled.",
        "While AKS works on the pool or the cluster, wait: the Node comes back. If the pool was scaled to 0, the"
        " message has the command that undoes it. A Node deleted by hand takes its claim along.",
    ),
    lost(
        INITIALIZED,
        r.SPOT_EVICTED,
        "Azure took the spot machine back. The claim goes, and its pool with it.",
        "The message says by what it was seen.",
        "Nothing: the claim's owner makes a new one. Let it prefer on-demand if evictions come too often.",
    ),
)
