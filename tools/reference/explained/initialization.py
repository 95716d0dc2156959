"""Reasons of Registered and Initialized."""

from provisioner.api import reasons as r

from .row import is_false, is_not_true, is_true, is_unknown

REGISTERED = "Registered"
INITIALIZED = "Initialized"
DESCRIBE = "`kubectl describe node NODE`."

INITIALIZATION = (
    is_true(REGISTERED, r.REGISTERED, "The Node exists and has the finalizer, owner, labels and taints of the claim."),
    is_unknown(
        REGISTERED,
        r.NODE_NOT_FOUND,
        "The agent pool is running, and its Node has not joined the cluster.",
        "`az aks nodepool show --name POOL`, and whether other new Nodes join the cluster.",
        "Wait some minutes. After `--registration-deadline`, check the subnet, outbound access (proxy, firewall, DNS)"
        " and the scale set of the pool. If the pool was scaled to 0, the message contains the command that reverts"
        " it.",
    ),
    is_false(
        REGISTERED,
        r.MULTIPLE_NODES_FOUND,
        "Several Nodes belong to the agent pool, because it was scaled up. The controller cannot determine the Node of"
        " the NodeClaim.",
        "`kubectl get nodes -l agentpool=POOL`.",
        "`az aks nodepool scale --name POOL --node-count 1`, or delete the NodeClaim, which deletes all its machines.",
    ),
    is_unknown(
        REGISTERED,
        r.NODE_DELETING,
        "The Node of an adopted NodeClaim is being deleted, because Kubernetes garbage-collects it together with its"
        " previous owner.",
        DESCRIBE,
        "None at first: the pods keep running, and the machine is kept. Delete the NodeClaim when the machine can be"
        " replaced.",
    ),
    *(
        is_unknown(
            on,
            r.NODE_UPDATE_REFUSED,
            "The API server rejects the update of the Node: a permission is missing, or a policy of the cluster denies"
            " it.",
            "`kubectl auth can-i patch nodes --as system:serviceaccount:NAMESPACE:NAME`, and admission webhooks.",
            "Grant the permissions of the chart, or exempt the controller's service account from the policy.",
        )
        for on in (REGISTERED, INITIALIZED)
    ),
    *(
        is_unknown(
            on,
            r.POOL_FAILED,
            "The agent pool failed before its Node was usable. The controller creates it again.",
            "The Launched condition, which contains the cause.",
            "Wait: the pool is deleted and created again.",
        )
        for on in (REGISTERED, INITIALIZED)
    ),
    is_true(
        INITIALIZED,
        r.INITIALIZED,
        "The Node is Ready, has no startup taint, and all GPUs of its size are allocatable.",
    ),
    is_unknown(
        INITIALIZED,
        r.NODE_INITIALIZING,
        "The Node was created less than 3 minutes ago, and is not Ready or lacks GPUs, as is usual.",
        DESCRIBE,
        "None: after 3 minutes, the reason is the cause, and the NodeClaim gets an Event.",
    ),
    is_not_true(
        INITIALIZED,
        r.NODE_NOT_READY,
        "The Ready condition of the Node is not True. The message contains the kubelet's reason and the time of the"
        " transition.",
        DESCRIBE + " The Events of the Node show whether AKS's auto-repair is in progress.",
        "Wait for the kubelet. With `NodeRepair` enabled, a Node that is not Ready for 10 minutes (25 while AKS repairs"
        " it) is replaced; `repair waits` in the message names what delays the repair.",
    ),
    is_not_true(
        INITIALIZED,
        r.STARTUP_TAINTS_EXIST,
        "A startup taint of the NodeClaim, or of a readiness rule, is still on the Node. For a rule, the message"
        " contains what is missing.",
        DESCRIBE,
        "The component that owns the taint removes it. Check that its DaemonSet exists and tolerates the taints of the"
        " Node. See [readiness rules](../how-to/readiness-rules.md).",
    ),
    is_unknown(
        INITIALIZED,
        r.READINESS_TIMEOUT,
        "A readiness rule with `onTimeout: Replace` is not satisfied in time. The message contains what is missing.",
        DESCRIBE,
        "None: the NodeClaim is deleted within the limits on repairs, and its owner creates a new one. If new machines"
        " fail as well, correct the rule or what it waits for. See [readiness rules](../how-to/readiness-rules.md).",
    ),
    is_not_true(
        INITIALIZED,
        r.KNOWN_EPHEMERAL_TAINTS_EXIST,
        "The Node has a taint that Kubernetes or Azure sets while a machine starts.",
        DESCRIBE,
        "Usually none: the taint is removed within a minute. Otherwise check the cloud node manager and the node"
        " controller.",
    ),
    is_unknown(
        INITIALIZED,
        r.RESOURCE_NOT_REGISTERED,
        "The Node does not report the GPUs of its size, or another resource that the NodeClaim requests. The message"
        " contains the reported and the expected number.",
        "`gpu-provisioner doctor NODECLAIM`, which names the DaemonSet or pod at fault.",
        "Check that a device plugin is installed and tolerates the taints of the NodeClaim. See"
        " [GPU Operator and device plugin](../how-to/device-plugin.md). To initialize without GPUs, set the annotation"
        " `gpu-provisioner.sh/gpu-readiness=report` on the NodeClaim.",
    ),
    is_unknown(
        INITIALIZED,
        r.DRA_DRIVER_POOLS_NOT_PUBLISHED,
        "A driver for dynamic resource allocation has not published the devices of the Node: the GPUs of the size if"
        " the node class has `gpu.mode: DRA`, or those of a driver in the annotation"
        " `karpenter.sh/requested-dra-drivers`. The message contains the published and the expected number.",
        "`kubectl get resourceslices` and the driver's pod on that Node.",
        "Check that the driver is installed and tolerates the taints of the NodeClaim. See"
        " [Dynamic resource allocation](../how-to/dra.md).",
    ),
    is_unknown(
        INITIALIZED,
        r.GPU_COUNT_MISMATCH,
        "The Node reports some of its GPUs. The message contains the reported and the expected number.",
        "`kubectl get node NODE -o jsonpath='{.status.allocatable}'`, `nvidia-smi` and Xid errors in the kernel log of"
        " that Node, and `spec.gpu` of the AgentPoolNodeClass.",
        "If MIG or time-slicing is configured otherwise than the AgentPoolNodeClass states, correct either. A machine"
        " whose device plugin runs and omits a GPU is cordoned 20 minutes after Registered, and replaced once no pod"
        " with GPUs runs there, for at most a day. See [Node repair](../references/karpenter.md#node-repair).",
    ),
    is_false(
        INITIALIZED,
        r.GPU_UNAVAILABLE,
        "An initialized Node has reported fewer GPUs than expected for 6 minutes.",
        "The device plugin's pod on that Node, `nvidia-smi`, and Xid errors in the kernel log.",
        "Restart the device plugin. If a GPU is defective, delete the NodeClaim; its owner creates a new one.",
    ),
    is_false(
        INITIALIZED,
        r.NODE_LOST,
        "The Node of the NodeClaim is deleted or is being deleted. The machine is kept until the time in the message.",
        "`kubectl get nodes -L agentpool`, and whether the cluster is being stopped or the pool was scaled.",
        "While AKS updates the pool or the cluster, wait: the Node returns. If the pool was scaled to 0, the message"
        " contains the command that reverts it. If the Node was deleted by hand, its NodeClaim is deleted as well. If"
        " the pool runs, or has failed, and has no Node for 30 minutes, its NodeClaim is deleted, and its owner can"
        " create a new one.",
    ),
    is_not_true(
        INITIALIZED,
        r.SPOT_EVICTED,
        "Azure evicted the spot machine. The NodeClaim and its agent pool are deleted.",
        "The message, which names the signal.",
        "None: the owner of the NodeClaim creates a new one. Use on-demand capacity if evictions are too frequent.",
    ),
)
