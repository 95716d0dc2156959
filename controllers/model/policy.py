"""The limits and switches of the rules, as one frozen value, each with its unit and the reason for its size."""

from provisioner.settings import RuleSettings


class Policy(RuleSettings, frozen=True, kw_only=True):
    """The settings that rules read, and what is not configurable. Durations are in seconds."""

    # What `max_agent_pools` None leaves of the cluster's own limit.
    pool_headroom: int = 10

    # A pool that is created for so long counts no longer as a machine that pods may wait for: longer than a recorded
    # MIG pool took.
    replace_creating_seconds: float = 1800.0

    # A new Node is Ready within about a minute, and its device plugin, whose image is pulled then, serves within two
    # more; until then, what the Node lacks is reported as its usual start.
    usual_start_seconds: float = 180.0

    # The device manager keeps the devices of a stopped plugin for 5 min; one status period is added
    # (docs/references/kubernetes.md#extended-resources-and-the-device-manager).
    gpu_loss_seconds: float = 360.0
    # After a sign that a kubelet restarted, a number of GPUs that it published before counts again only after three of
    # its status periods. A MIG manager that partitions the GPUs again, with a reboot, is waited for.
    gpu_stale_seconds: float = 30.0
    mig_config_seconds: float = 900.0

    # A Ready Node is diagnosed after `diagnosis_seconds` without GPUs, then at the first interval, and at the slow one
    # after `diagnosis_slow_seconds`. A Node whose plugin only restarts is not diagnosed.
    diagnosis_seconds: float = 90.0
    diagnosis_poll_seconds: float = 60.0
    diagnosis_slow_poll_seconds: float = 300.0
    diagnosis_slow_seconds: float = 1800.0

    # The circuit breaker (docs/references/rules.md#circuit-breaker).
    circuit_breaker_floor: int = 3
    circuit_breaker_share: float = 0.2
    circuit_breaker_window_seconds: float = 600.0
    # The minimum age of a candidate. For a deleted Node, a few seconds show whether others are deleted with it; an
    # orphaned pool is billed by the hour, so a minute does not matter.
    node_deleted_seconds: float = 5.0
    orphan_seconds: float = 60.0
    missing_seconds: float = 60.0

    # Repair (docs/references/karpenter.md#node-repair): a Node that was usable and is not Ready for so long is
    # replaced. AKS auto-repair starts after 5 min and has 20 min for each remedy; after the end of one it has the 5 min
    # after which it would start the next; after an hour it has stopped.
    node_repair: bool = True
    repair_seconds: float = 600.0
    # A Node that is gone while its pool is at rest: longer than AKS takes for a remedy that makes it register again.
    node_lost_seconds: float = 1800.0
    # A process that started meanwhile observes it for as long as a Node takes to register again.
    node_lost_watch_seconds: float = 300.0
    repair_aks_seconds: float = 1500.0
    repair_remedy_seconds: float = 1200.0
    repair_remedied_seconds: float = 300.0
    repair_most_seconds: float = 3600.0
    # After a start, the process observes all unhealthy Nodes for so long before the first repair.
    repair_watch_seconds: float = 60.0
    repair_poll_seconds: float = 30.0
    repair_drain_seconds: float = 300.0
    # A grace period of a pod that is longer does not delay a repair further.
    repair_grace_seconds: float = 86_400.0
    # How many are repaired at once, and how many can become unhealthy together before none is repaired.
    repair_share: float = 0.2
    repair_simultaneous_floor: int = 2
    repair_simultaneous_share: float = 0.5
    repair_simultaneous_seconds: float = 600.0
    # Machines of one size and node image that failed in the same way, at this age or younger: how many are replaced
    # before one of them was usable.
    repair_young_seconds: float = 3600.0
    repair_alike: int = 2
    # Machines of one owner that failed in the same way at any age, one after the other: how many are replaced before a
    # newer one becomes as old as they did.
    repair_in_turn: int = 4
    repair_history_seconds: float = 2_592_000.0
    # A signal of machines that still work which so many Nodes had within a day has a common cause, such as a rollout.
    repair_rollout_floor: int = 2
    repair_rollout_share: float = 0.1
    repair_rollout_seconds: float = 86_400.0
    # An owner that has not created another machine after so long needs none.
    repair_successor_seconds: float = 300.0
    # What allows the repair of a suspended machine lasts for at most so long.
    repair_allowed_seconds: float = 86_400.0
    # The pod of the device plugin is restarted at most so often on one Node.
    plugin_restart_seconds: float = 86_400.0

    # A pool in deletion is read with a GET once LISTs have failed for so long, and at these intervals; the rate limits
    # spread the GETs of many pools (docs/references/rules.md#arm-request-budget).
    unlisted_seconds: float = 30.0
    unlisted_poll_seconds: float = 30.0

    # A refused write is retried when its object changes, or after this; a forbidden one earlier at first.
    refused_seconds: float = 600.0
    # The maximum age of a fresh read.
    fresh_seconds: float = 10.0
    # The pods of a drain are read each second at first, then less often.
    drain_poll_seconds: float = 1.0
    drain_slow_poll_seconds: float = 5.0

    @property
    def busy_list_seconds(self) -> float:
        """The interval of the LISTs of agent pools while pools change: a quarter of the share of 1 call per second."""
        return min(4.0 / self.arm_share, 30.0)

    @property
    def idle_list_seconds(self) -> float:
        """The same while none changes: at most half of the share, so that as many clusters as have a share can idle."""
        return max(60.0, 2.0 / self.arm_share)

    @property
    def stale_list_seconds(self) -> float:
        """No removal is inferred from a list of pools, or a state of the cluster, that is older."""
        return 1.5 * self.idle_list_seconds
