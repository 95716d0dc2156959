"""Events that do not accompany a change of a condition, and Events on Nodes and Pods."""

from provisioner.api import reasons as r
from provisioner.api.causes import CAUSES

from .row import Event

_REMOVED = [f"{row.meaning} (`{row.reason}`)" for row in CAUSES.values() if row.meaning]

EVENTS = (
    Event(
        name=r.TRYING_OFFERING,
        kind="Normal",
        about=("NodeClaim",),
        meaning="The size, zone and capacity type that is requested next, and why the previous one was not available.",
    ),
    Event(
        name=r.REMOVING_FAILED_POOL,
        kind="Normal",
        about=("NodeClaim",),
        meaning="The agent pool of a failed attempt is deleted before the next attempt.",
    ),
    Event(
        name=r.POOL_CHANGED,
        kind="Warning",
        about=("NodeClaim",),
        meaning="Another client scaled the NodeClaim's agent pool, or removed the tags or labels that identify it.",
        remedy="The message contains the command that reverts the change.",
    ),
    Event(
        name=r.NODE_REPAIR,
        kind="Warning",
        about=("NodeClaim",),
        meaning="The machine was unhealthy for too long, for the cause in the message. The NodeClaim is deleted, and"
        " its owner creates a new one.",
        remedy="[Pausing repair](../how-to/pause-repair.md) keeps a Node for inspection.",
    ),
    Event(
        name=r.TERMINATE_NODE,
        kind="Warning",
        about=("NodeClaim",),
        meaning="NVSentinel requests another machine by the TerminateNode in the message. The NodeClaim is deleted, and"
        " its owner creates a new one.",
        remedy="See [NVSentinel](../how-to/nvsentinel.md).",
    ),
    Event(
        name=r.NODE_NOT_MANAGED,
        kind="Normal",
        about=("TerminateNode", "RebootNode"),
        meaning="`spec.nodeName` is not a Node of a NodeClaim of this controller, which leaves the object alone.",
        remedy="Correct the name if it should be one.",
    ),
    Event(
        name=r.STALE_CACHE_NODE,
        kind="Warning",
        about=("GKMCacheNode", "ClusterGKMCacheNode"),
        meaning="The Node of this object is gone, and the GPU Kernel Manager still counts it.",
        remedy="Delete the object and its finalizers, or enable `gkm.cleanup`. See"
        " [GPU kernel caches](../how-to/gkm.md#removed-nodes).",
    ),
    Event(
        name=r.READINESS_TIMEOUT,
        kind="Warning",
        about=("NodeClaim",),
        meaning="A readiness rule with `onTimeout: Release` was not satisfied in time, and its taint is removed.",
        remedy="The message contains what is missing on the Node, which takes pods from now on.",
    ),
    Event(
        name=r.NODE_REPAIR_BLOCKED,
        kind="Warning",
        about=("NodeClaim",),
        meaning="A repair is due and delayed, because too many Nodes are unhealthy, or became unhealthy together.",
        remedy="Look for a common cause: image, driver, network, zone.",
    ),
    Event(
        name=r.TWO_GPU_OWNERS,
        kind="Warning",
        about=("NodeClaim",),
        meaning="A device plugin and a DRA driver both offer the GPUs of one Node, so that two pods can get the same"
        " GPU.",
        remedy="Keep one of the two away from these Nodes with a node selector: see"
        " [Dynamic resource allocation](../how-to/dra.md).",
    ),
    Event(
        name=r.NODE_REPAIR_DRY_RUN,
        kind="Warning",
        about=("NodeClaim",),
        meaning="Repair would delete the NodeClaim, and does not because `repairDryRun` is set.",
        remedy="Unset `repairDryRun` to have machines replaced.",
    ),
    Event(
        name=r.UNEXPECTED_ADMISSION_ERROR,
        kind="Warning",
        about=("NodeClaim", "Node"),
        meaning="The kubelet rejected pods that the scheduler had bound to the Node, because their devices were gone:"
        " the device plugin or the kubelet had restarted, or a GPU failed. Such a pod stays `Failed`.",
        remedy="Controllers create other pods, and a Job counts them for its `backoffLimit`. Delete those that are"
        " left. If it continues:"
        " [GpuProvisionerGpuAdmissionErrors](../runbooks/GpuProvisionerGpuAdmissionErrors.md).",
    ),
    Event(
        name=r.FAILED_DRAINING,
        kind="Warning",
        about=("Node",),
        meaning="The pods that block the drain, each with its cause.",
        remedy="Change the PodDisruptionBudget, or delete the pod.",
    ),
    Event(
        name=r.AWAITING_VOLUME_DETACHMENT,
        kind="Normal",
        about=("Node",),
        meaning="The volumes that are still attached to the machine.",
    ),
    Event(
        name=r.NOMINATED,
        kind="Normal",
        about=("Pod",),
        meaning="A NodeClaim or Node that has room for the pending pod; kube-scheduler decides where it runs.",
    ),
    Event(
        name=r.INSUFFICIENT_CAPACITY,
        kind="Warning",
        about=("NodeClaim",),
        meaning="All offerings of the NodeClaim failed; it is deleted because other machines take its pods.",
    ),
    Event(
        name=r.LAUNCH_FAILED,
        kind="Warning",
        about=("NodeClaim", "NodePool"),
        meaning="Of a NodePool: Azure or the API server refuses what it would launch, so that these sizes are not"
        " requested for it for a while. Of a NodeClaim: it cannot be launched and is deleted, because other machines"
        " take its pods, or no pod waits for it.",
        remedy="Correct what the message names: an Azure Policy, the node class, the NodePool. A changed NodePool or"
        " node class is tried at once.",
    ),
    Event(
        name=r.SCALED_DOWN,
        kind="Normal",
        about=("NodeClaim",),
        meaning="The static NodePool has more NodeClaims than `spec.replicas`; this one is deleted.",
    ),
    Event(
        name=r.DISRUPTION_LAUNCHING,
        kind="Normal",
        about=("NodeClaim",),
        meaning="Other machines are created before this one is removed. The message names their NodeClaims.",
    ),
    Event(
        name=r.DISRUPTION_WAITING_READINESS,
        kind="Normal",
        about=("NodeClaim",),
        meaning="The NodeClaim replaces others, which are removed once it is Initialized.",
    ),
    Event(
        name=r.UNCONSOLIDATABLE,
        kind="Normal",
        about=("NodeClaim",),
        meaning="The machine was considered for consolidation and is kept, for the cause in the message.",
    ),
    Event(
        name=r.REPLACEMENT_FAILED,
        kind="Warning",
        about=("NodeClaim",),
        meaning="A replacement was not Initialized: it is deleted, and the machine that it was to replace is kept.",
        remedy="Remove the cause in the message. The next attempt begins after ten minutes, later ones after more.",
    ),
    Event(
        name=r.DISRUPTION_TERMINATING,
        kind="Normal",
        about=("NodeClaim", "Node"),
        meaning=f"The machine is removed: {', '.join(_REMOVED[:-1])}, or {_REMOVED[-1]}.",
    ),
    Event(
        name=r.DISRUPTION_BLOCKED,
        kind="Normal",
        about=("NodePool", "NodeClaim", "Node"),
        meaning="Machines could be removed or replaced, and the cause in the message does not allow it: budgets of the"
        " NodePool, its limits, a replacement that failed before, a clock that was set, or of one machine: an"
        " annotation `karpenter.sh/do-not-disrupt`, a PodDisruptionBudget, a job with GPUs, pods that no other machine"
        " can take, or a NodePool that was deleted without its NodeClaims.",
        remedy="Change `spec.disruption.budgets` if they should go; restart the controller after its clock was set. Of"
        " one machine: none, or change what the message names. Delete NodeClaims without a NodePool yourself.",
    ),
    Event(
        name=r.FAILED_SCHEDULING,
        kind="Warning",
        about=("Pod",),
        meaning="Why no NodePool has a machine for the pending pod, one cause for each NodePool; or how much more work"
        " the constraints of the pod need than one pod may cost.",
        remedy="Change what the message names: a taint, a label, a request or a volume of the pod, the number of its"
        " terms, or a limit or a condition of the NodePool.",
    ),
    Event(
        name=r.MACHINE_DOES_NOT_FIT,
        kind="Warning",
        about=("Pod", "NodeClaim", "NodePool"),
        meaning="A machine does not take the pods that it was bought for. The message names the NodeClaim, and how its"
        " Node differs from what was predicted. Its instance type is not bought for such pods again, and after two"
        " machines none is.",
        remedy="See [The purchase brake](../how-to/purchase-brake.md).",
    ),
    Event(
        name=r.NODECLAIMS_CREATED,
        kind="Normal",
        about=("NodePool",),
        meaning="NodeClaims were created for pending pods, for static capacity, or in place of other machines. The"
        " message states their sizes and the price by which the decision was made, in USD an hour.",
    ),
    Event(
        name=r.PRICE_UNKNOWN,
        kind="Normal",
        about=("NodePool",),
        meaning="A NodeClaim was created for a size without a list price in the region of the cluster. Such"
        " sizes are chosen after all others; in a region without prices they are ordered by their prices elsewhere.",
        remedy="None, or name the sizes that may be bought in the requirements of the NodePool.",
    ),
    Event(
        name=r.NO_COMPATIBLE_INSTANCE_TYPES,
        kind="Warning",
        about=("NodePool",),
        meaning="No size with an offering that is available now satisfies the requirements of the NodePool.",
        remedy="Relax the requirements. `gpu-provisioner schedule` names sizes that are not known.",
    ),
    Event(
        name=r.POOL_LIMIT_REACHED,
        kind="Normal",
        about=("NodePool",),
        meaning="The static NodePool has fewer NodeClaims than `spec.replicas`, because its `spec.limits.nodes`, its"
        " limit on the cost or the number of agent pools does not allow more. The message names the limit.",
        remedy="Raise that limit (`spec.limits.nodes`, the annotation `gpu-provisioner.sh/cost-per-hour`,"
        " `--max-agent-pools`), lower `spec.replicas`, or delete"
        " NodeClaims that are not needed.",
    ),
    Event(
        name=r.EVICTED,
        kind="Normal",
        about=("Pod",),
        meaning="The pod was evicted with the Eviction API, which respects PodDisruptionBudgets.",
    ),
    Event(
        name=r.DISRUPTED,
        kind="Normal",
        about=("Pod",),
        meaning="The pod was deleted, bypassing PodDisruptionBudgets, because the termination grace period of the"
        " NodeClaim is about to expire.",
        remedy="Use a longer `terminationGracePeriod`.",
    ),
    Event(
        name=r.TERMINATION_GRACE_PERIOD_EXPIRING,
        kind="Warning",
        about=("NodeClaim", "Node"),
        meaning="The time at which all pods of the Node are deleted, bypassing PodDisruptionBudgets.",
    ),
    Event(
        name=r.INVALID_TERMINATION_TIMESTAMP,
        kind="Warning",
        about=("NodeClaim",),
        meaning="The annotation `karpenter.sh/nodeclaim-termination-timestamp` is not a timestamp, and is ignored.",
        remedy="Use a timestamp such as `2026-01-02T15:04:05Z`.",
    ),
    Event(
        name=r.FIELD_UNREADABLE,
        kind="Warning",
        about=("NodeClaim", "Node", "Pod"),
        meaning="A field of the object that the API server accepts cannot be decoded, such as a time in the year 0. It"
        " is ignored. A NodeClaim is not reconciled meanwhile; it can be deleted. A Node or NodeClaim whose size cannot"
        " be read is no place for pending pods.",
        remedy="Correct the field that the message names, or recreate the object without it.",
    ),
    Event(
        name=r.INVALID_DO_NOT_DISRUPT,
        kind="Warning",
        about=("Pod",),
        meaning="The annotation `karpenter.sh/do-not-disrupt` is neither `true` nor a duration, and is ignored.",
        remedy='Use `"true"`, or a duration such as `1h30m`.',
    ),
    Event(
        name=r.LEAKED_POOL_DELETED,
        kind="Warning",
        about=("NodeClaim",),
        meaning="An agent pool of the controller has no NodeClaim and is deleted. The Event has the name of the"
        " NodeClaim for which the pool was created.",
        remedy="If NodeClaims disappear without being deleted, find out what removes them.",
    ),
    Event(
        name=r.INSTANCE_GONE,
        kind="Warning",
        about=("NodeClaim",),
        meaning="The agent pool of the NodeClaim no longer exists. The NodeClaim is deleted.",
        remedy="The activity log of the cluster shows who deleted the pool.",
    ),
    Event(
        name=r.NODE_DELETED,
        kind="Warning",
        about=("NodeClaim",),
        meaning="Another client deleted the Node. Its machine and the NodeClaim are deleted as well.",
    ),
    Event(
        name=r.SPOT_EVICTED,
        kind="Warning",
        about=("NodeClaim",),
        meaning="Azure evicted the spot machine, or has announced to do so within seconds. The agent pool and the"
        " NodeClaim are deleted.",
    ),
    Event(
        name=r.REMOVAL_RESTRICTED,
        kind="Warning",
        about=("NodeClaim", "Node"),
        meaning="The circuit breaker restricts inferred removals: too many machines would be removed at once.",
        remedy="`gpu-provisioner gc` lists the removals; `gpu-provisioner gc --confirm` allows exactly these.",
    ),
    Event(
        name=r.FINALIZER_REMOVED_MANUALLY,
        kind="Warning",
        about=("NodeClaim",),
        meaning="The user who removed the finalizer with `gpu-provisioner release`, and the last known state of the"
        " agent pool.",
    ),
)
