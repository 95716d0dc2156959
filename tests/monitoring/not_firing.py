"""Series for which an alert must not fire, and why."""

from .series import A100, ALIVE, H100, OTHER, SECOND, NotFiring, buckets, idle, ours, reconciles, requests, waiting

NOT_FIRING = (
    NotFiring(
        alert="Restarting",
        series={
            **ours("process_start_time_seconds", "1000x20 2000x20 _x5 3000x140"),
            **ours("gpu_provisioner_event_loop_lag_seconds", "0.01x180"),
        },
        why="two restarts, such as those of an upgrade of the node",
    ),
    NotFiring(
        alert="Restarting",
        series={
            f"process_start_time_seconds{{{OTHER}}}": " ".join(f"{number}x1" for number in range(60)),
            **ours("gpu_provisioner_event_loop_lag_seconds", "0.01x180"),
        },
        why="another program restarts",
    ),
    NotFiring(
        alert="ClaimStuck",
        series=ours(
            "gpu_provisioner_nodeclaims_not_ready_oldest_seconds",
            " ".join(["0+60x20"] * 8),
            condition="Launched",
            reason="Creating",
        ),
        why="each claim is Ready within twenty minutes",
    ),
    NotFiring(
        alert="ProvisioningSlow",
        series=buckets(A100, within=1200, beyond="0+1x180"),
        why="all machines are provisioned within the budget",
    ),
    NotFiring(
        alert="ProvisioningSlow",
        series={
            **buckets(H100, within=1800, beyond="_x5 5x175"),
            f'gpu_provisioner:provisioning_budget_seconds{{instance_type="{H100}"}}': "2400x200",
        },
        why="this size has a larger budget",
    ),
    NotFiring(
        alert="QuotaExhausted", series=waiting("AllocationFailed", "5x200"), why="the claims are waiting for capacity"
    ),
    NotFiring(alert="QuotaExhausted", series=waiting("QuotaExceeded", "0x200"), why="no claim is waiting"),
    NotFiring(alert="SkuUnavailable", series=waiting("QuotaExceeded", "5x200"), why="the claims are waiting for quota"),
    NotFiring(alert="SkuUnavailable", series=waiting("Creating", "5x200"), why="Azure is creating the machines"),
    NotFiring(
        alert="PurchaseBrake",
        series=ours("gpu_provisioner_purchase_brake_pods", "0x200"),
        why="each pod runs on the machine that was bought for it",
    ),
    NotFiring(
        alert="PodsUnschedulable",
        series=ours("karpenter_scheduler_unschedulable_pods_count", "3x25 0x2 1x25 0x100", controller="provisioner"),
        why="each time there is a machine for them within half an hour",
    ),
    NotFiring(
        alert="ReplacementsUndone",
        series=ours(
            "karpenter_voluntary_disruption_queue_failures_total",
            "_x9 1x170",
            decision="replace",
            reason="drifted",
            consolidation_type="",
        ),
        why="the next attempt succeeded",
    ),
    NotFiring(
        alert="TerminationStuck",
        series=ours("operator_nodeclaim_termination_current_time_seconds", "0+60x30 _x150", name="ws1"),
        why="the termination took half an hour",
    ),
    NotFiring(
        alert="GpusUnusable",
        series={
            **ours("gpu_provisioner_gpus", "8x200", state="expected", instance_type=H100, gpu_name="H100 80"),
            **ours("gpu_provisioner_gpus", "_x50 8x150", state="allocatable", instance_type=H100, gpu_name="H100 80"),
        },
        why="all GPUs are allocatable after 50 minutes",
    ),
    NotFiring(
        alert="GpusMissing",
        series=ours("gpu_provisioner_gpu_gates_closed", " ".join(["1x13 0x5"] * 9), reason="Unknown"),
        why="each machine has its GPUs within a quarter of an hour",
    ),
    NotFiring(
        alert="GpuAdmissionErrors",
        series=ours("gpu_provisioner_gpu_admission_errors_total", "0x9 5x170", reason="unregistered"),
        why="a restart of the device plugin costs a few pods",
    ),
    NotFiring(
        alert="ReadinessRuleOverdue",
        series=ours("gpu_provisioner_readiness_rules_overdue", "0x20 1x3 0x150"),
        why="the rule is satisfied soon after its timeout",
    ),
    NotFiring(
        alert="RepairsSuspended",
        series=ours("gpu_provisioner_repairs_suspended", "0x200"),
        why="no machine is kept",
    ),
    NotFiring(
        alert="LeakedAgentPools",
        series=ours("gpu_provisioner_leaked_agent_pools", " ".join(["0x10 1x10"] * 8)),
        why="each pool is removed within ten minutes",
    ),
    NotFiring(alert="IdleGpuSpend", series=idle(gpus=8, held=8), why="all GPUs are requested"),
    NotFiring(alert="IdleGpuSpend", series=idle(gpus=8, held=0, price="9"), why="the cost is below the threshold"),
    NotFiring(alert="IdleGpuSpend", series=idle(gpus=8, held=0, price=""), why="the size has no price"),
    NotFiring(alert="IdleGpuSpend", series=idle(gpus=8, held=0, phase=""), why="kube-state-metrics is missing"),
    NotFiring(
        alert="AgentPoolsNearLimit",
        series={
            **ours("gpu_provisioner_agent_pools", "80x200", state="running"),
            **ours("gpu_provisioner_agent_pools", "10x200", state="foreign"),
        },
        why="ninety pools do not exceed the threshold",
    ),
    NotFiring(
        alert="RemovalsRestricted",
        series=ours("gpu_provisioner_removals_restricted", "0x200"),
        why="garbage collection is not restricted",
    ),
    NotFiring(
        alert="RepairsBlocked",
        series=ours("gpu_provisioner_repairs_blocked", " ".join(["1x20 0x10"] * 6)),
        why="no repair is blocked for more than twenty minutes",
    ),
    NotFiring(
        alert="ArmThrottled", series=requests(c429="0+1x200", c2xx="0+99x200"), why="one in a hundred is throttled"
    ),
    NotFiring(
        alert="CredentialFailing",
        series=ours("gpu_provisioner_credential_failures_total", "0x20 2x180", system="azure", reason="no_token"),
        why="only two requests failed",
    ),
    NotFiring(alert="Down", series=ALIVE, why="the controller is scraped"),
    NotFiring(
        alert="NoLeader",
        series={
            **ALIVE,
            f"gpu_provisioner_event_loop_lag_seconds{{{SECOND}}}": "0.01x200",
            **ours("leader_election_master_status", "1x60 0x140", name="lease"),
            f'leader_election_master_status{{{SECOND},name="lease"}}': "0x62 1x138",
        },
        why="one replica took over from the other within minutes",
    ),
    NotFiring(
        alert="NoLeader",
        series={**ALIVE, f'leader_election_master_status{{{OTHER},name="their-lease"}}': "0x200"},
        why="the series is another operator's",
    ),
    NotFiring(
        alert="ControllerErrors", series={**ALIVE, **reconciles("0+1x200", "0+49x200")}, why="one in fifty fails"
    ),
    NotFiring(
        alert="ControllerErrors",
        series={**ALIVE, **reconciles("0+1x200", "0+2x200", OTHER)},
        why="the failures are another operator's",
    ),
    NotFiring(
        alert="QueueBacklog",
        series={
            **ALIVE,
            **ours("workqueue_depth", "60x200", name="nodeclaim"),
            **ours("leader_election_master_status", "0x200", name="lease"),
        },
        why="the replica is not the leader",
    ),
    NotFiring(
        alert="QueueBacklog",
        series={**ALIVE, **ours("workqueue_depth", "50x200", name="nodeclaim")},
        why="fifty keys do not exceed the threshold",
    ),
    NotFiring(
        alert="EventLoopBlocked",
        series=ours("gpu_provisioner_event_loop_lag_seconds", " ".join(["0.9x10 3x3"] * 15)),
        why="the event loop was blocked only briefly",
    ),
    NotFiring(
        alert="CacheStale",
        series=ours("gpu_provisioner_cache_age_seconds", " ".join(["0+60x9"] * 20), resource="nodes"),
        why="the cache is updated every nine minutes",
    ),
    NotFiring(
        alert="ObjectsSetAside",
        series=ours("gpu_provisioner_cache_unreadable_objects", "0x200", resource="pods"),
        why="every object is read whole",
    ),
)
