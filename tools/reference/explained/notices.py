"""Events of their own: what happens without changing a condition, or on a Node or Pod."""

from provisioner.api import reasons as r

from .row import Notice

NOTICES = (
    Notice(
        name=r.TRYING_OFFERING,
        kind="Normal",
        about=("NodeClaim",),
        meaning="Which of several sizes, zones or capacity types is asked for now, and why not the one before.",
    ),
    Notice(
        name=r.REMOVING_FAILED_POOL,
        kind="Normal",
        about=("NodeClaim",),
        meaning="The pool of a failed attempt is deleted before the next one.",
    ),
    Notice(
        name=r.POOL_CHANGED,
        kind="Warning",
        about=("NodeClaim",),
        meaning="Somebody scaled the claim's agent pool, or took our marks off it.",
        remedy="The message has the command that undoes it.",
    ),
    Notice(
        name=r.NODE_REPAIR,
        kind="Warning",
        about=("NodeClaim",),
        meaning="The Node was not Ready for too long: the claim is deleted, for its owner to make a new one.",
        remedy="See [Pausing repair](../how-to/pause-repair.md) to keep a Node for inspection.",
    ),
    Notice(
        name=r.NODE_REPAIR_BLOCKED,
        kind="Warning",
        about=("NodeClaim",),
        meaning="A repair is due and held back, because too many Nodes are sick, or fell sick together.",
        remedy="Find what they share: image, driver, network, zone.",
    ),
    Notice(
        name=r.FAILED_DRAINING,
        kind="Warning",
        about=("Node",),
        meaning="Pods that do not leave by themselves, and why each of them stays.",
        remedy="Free the budget, or delete the pod.",
    ),
    Notice(
        name=r.AWAITING_VOLUME_DETACHMENT,
        kind="Normal",
        about=("Node",),
        meaning="Which volumes are still attached to the machine.",
    ),
    Notice(
        name=r.EVICTED,
        kind="Normal",
        about=("Pod",),
        meaning="The pod was asked to leave, by the eviction API, which honours budgets.",
    ),
    Notice(
        name=r.DISRUPTED,
        kind="Normal",
        about=("Pod",),
        meaning="The pod was deleted past budgets, because the claim's termination time is near.",
        remedy="A longer `terminationGracePeriod` leaves more time.",
    ),
    Notice(
        name=r.TERMINATION_GRACE_PERIOD_EXPIRING,
        kind="Warning",
        about=("NodeClaim", "Node"),
        meaning="By when every pod of the Node is deleted, whatever budgets say.",
    ),
    Notice(
        name=r.INVALID_TERMINATION_TIMESTAMP,
        kind="Warning",
        about=("NodeClaim",),
        meaning="The annotation `karpenter.sh/nodeclaim-termination-timestamp` is no time, and is ignored.",
        remedy="Write it like `2026-01-02T15:04:05Z`.",
    ),
    Notice(
        name=r.INVALID_DO_NOT_DISRUPT,
        kind="Warning",
        about=("Pod",),
        meaning="The annotation `karpenter.sh/do-not-disrupt` is neither `true` nor a duration, and is ignored.",
        remedy='Write `"true"`, or a duration such as `1h30m`.',
    ),
    Notice(
        name=r.LEAKED_POOL_DELETED,
        kind="Warning",
        about=("NodeClaim",),
        meaning="An agent pool of ours had no claim any longer and is deleted. It stands under the name of the claim"
        " that it was made for.",
        remedy="If claims vanish without having been deleted, see what removes them.",
    ),
    Notice(
        name=r.INSTANCE_GONE,
        kind="Warning",
        about=("NodeClaim",),
        meaning="The claim's agent pool is gone from the cluster, so the claim goes.",
        remedy="The activity log of the cluster says who deleted it.",
    ),
    Notice(
        name=r.NODE_DELETED,
        kind="Warning",
        about=("NodeClaim",),
        meaning="Somebody deleted the claim's Node, so its machine and the claim go too.",
    ),
    Notice(
        name=r.SPOT_EVICTED,
        kind="Warning",
        about=("NodeClaim",),
        meaning="Azure took the spot machine back: pool and claim go, for a new one.",
    ),
    Notice(
        name=r.REMOVAL_BRAKED,
        kind="Warning",
        about=("NodeClaim",),
        meaning="More would be removed without anybody's having asked than is plausible, so nothing is.",
        remedy="`gpu-provisioner gc` lists it, `gpu-provisioner gc --confirm` lets exactly that pass.",
    ),
    Notice(
        name=r.FINALIZER_RELEASED_BY_HAND,
        kind="Warning",
        about=("NodeClaim",),
        meaning="Who took our finalizer off with `gpu-provisioner release`, and what was known of the pool then.",
    ),
)
