"""How patient and how careful the rules are: numbers and switches, in one frozen value.

Every limit the rules use stands here with its unit and the reason for its size.
"""

from typing import Literal

import msgspec


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Durations are in seconds."""

    gpu_readiness: Literal["require", "report"] = "require"
    legacy_pools: Literal["collect", "report"] = "collect"

    # Money (docs/references/rules.md#limits-on-cost-and-privilege). None: the cluster's own limit minus
    # `pool_headroom`, and no rate.
    max_agent_pools: int | None = None
    pool_headroom: int = 10
    max_creates_per_minute: int | None = None

    # Deadlines: their end is a reason, an event and a metric; none destroys a machine
    # (docs/references/rules.md#every-state-has-a-deadline). AKS itself gives a pool's nodes about 45 min
    # (docs/references/agent-pools.md#durations); a recorded MIG pool took 26.
    launch_seconds: float = 300.0
    creating_seconds: float = 2700.0
    registration_seconds: float = 900.0
    initialization_seconds: float = 1200.0
    draining_seconds: float = 900.0
    # Kubernetes gives up waiting for an unmount after 6 min (options.py).
    detaching_seconds: float = 360.0
    deleting_seconds: float = 1800.0
    releasing_seconds: float = 600.0

    # The device manager keeps a dead plugin's devices for 5 min; one status period is added
    # (docs/references/kubernetes.md#extended-resources-and-the-device-manager).
    gpu_loss_seconds: float = 360.0

    # The circuit breaker (docs/references/rules.md#circuit-breaker).
    circuit_breaker_floor: int = 3
    circuit_breaker_share: float = 0.2
    circuit_breaker_window_seconds: float = 600.0
    # How long a suspicion must stand before it is acted on. A deleted Node is one person's deed: a few seconds
    # are enough to see whether it comes alone; an orphan costs money by the hour, so a minute is nothing.
    node_deleted_seconds: float = 5.0
    orphan_seconds: float = 60.0
    missing_seconds: float = 60.0

    # Repair (docs/references/karpenter.md#node-repair): a Node that was usable and is not Ready for so long, by our own
    # first sight, is replaced. AKS's auto-repair begins after 5 min and gets 20 for each of its remedies; what it has
    # ended gets the 5 min after which it would begin the next; after an hour it has given up.
    node_repair: bool = True
    repair_seconds: float = 600.0
    repair_aks_seconds: float = 1500.0
    repair_remedy_seconds: float = 1200.0
    repair_remedied_seconds: float = 300.0
    repair_most_seconds: float = 3600.0
    # A process that has just begun to look must have seen it for itself, and all others who fell sick as well.
    repair_watch_seconds: float = 60.0
    repair_poll_seconds: float = 30.0
    repair_drain_seconds: float = 300.0
    # How many are repaired at once, and how many may fall sick together before it is no machine's fault.
    repair_share: float = 0.2
    repair_simultaneous_floor: int = 2
    repair_simultaneous_share: float = 0.5
    repair_simultaneous_seconds: float = 600.0

    # Nothing is inferred from a list of pools, or a state of the cluster, older than an idle interval and a half.
    stale_list_seconds: float = 90.0

    # A write refused for good is tried again when the object changes, or after this; a forbidden one sooner at first.
    refused_seconds: float = 600.0
    # How old a fresh read may be to count as fresh.
    fresh_seconds: float = 10.0
    # A drain is looked at each second at first, then less often: some wait for days.
    drain_poll_seconds: float = 1.0
    drain_patient_seconds: float = 5.0
