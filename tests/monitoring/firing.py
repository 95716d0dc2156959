"""Series for which each alert fires, with its labels and annotations."""

from .series import (
    A100,
    ALIVE,
    H100,
    OURS,
    SECOND,
    Firing,
    buckets,
    conditions,
    idle,
    ours,
    reconciles,
    requests,
    waiting,
)

# A crash loop: a scrape each minute, two of a life of 40 s to 2 min each five minutes, another process each time.
STARTS = " ".join(f"{1000 + 300 * life} {1000 + 300 * life} _x3" for life in range(24))
ALIVE_AT_TIMES = " ".join(["0.01 0.01 _x3"] * 24)

FIRING = (
    Firing(
        alert="Restarting",
        series={
            **ours("process_start_time_seconds", STARTS),
            **ours("gpu_provisioner_event_loop_lag_seconds", ALIVE_AT_TIMES),
        },
        at=30,
        severities=("critical",),
        labels={"instance": "a"},
        summary="a restarted 6 times within half an hour",
    ),
    Firing(
        alert="ClaimStuck",
        series={
            **ours(
                "gpu_provisioner_nodeclaims_not_ready_oldest_seconds",
                "0+60x200",
                condition="Launched",
                reason="Creating",
            ),
            **conditions("ws2", "ws1", kind="Launched", reason="Creating"),
            **conditions("elsewhere", kind="Launched", reason="QuotaExceeded"),
        },
        at=21,
        severities=("warning",),
        labels={"condition": "Launched", "reason": "Creating"},
        summary="A NodeClaim has not been Ready for 21m 0s: Launched has the reason Creating",
        description="Its workload has no GPU. NodeClaims with this reason: ws1 ws2 - `kubectl describe nodeclaim` shows"
        " the cause and the remedy.",
    ),
    Firing(
        alert="ProvisioningSlow",
        series=buckets(A100, within=1800, beyond="_x5 5x100"),
        at=22,
        severities=("warning",),
        labels={"instance_type": A100},
        summary=f"Provisioning {A100} takes 1.5 times its budget",
    ),
    Firing(
        alert="ProvisioningSlow",
        series={
            **buckets(H100, within=3600, beyond="0x5 1x100"),
            f'gpu_provisioner:provisioning_budget_seconds{{instance_type="{H100}"}}': "3000x100",
        },
        at=22,
        severities=("warning",),
        labels={"instance_type": H100},
        summary=f"Provisioning {H100} takes 1.2 times its budget",
    ),
    Firing(
        alert="QuotaExhausted",
        series={
            **waiting("QuotaExceeded", "2x30"),
            **conditions("ws1", "ws2", kind="Launched", reason="QuotaExceeded"),
        },
        at=6,
        severities=("info",),
        labels={"reason": "QuotaExceeded"},
        summary="2 NodeClaims are waiting for quota",
        description="The subscription's quota for a GPU VM family is exhausted. NodeClaims: ws1 ws2 - request more"
        " quota or delete NodeClaims. `az vm list-usage` shows the VM family.",
    ),
    # Between two attempts, up to ten minutes apart, the reason is Creating for a while: the alert keeps firing.
    Firing(
        alert="QuotaExhausted",
        series=waiting("QuotaExceeded", " ".join(["1x3", "_x9"] * 8)),
        at=80,
        severities=("info", "warning"),
        labels={"reason": "QuotaExceeded"},
        summary="1 NodeClaims are waiting for quota",
        description="The subscription's quota for a GPU VM family is exhausted. NodeClaims: - request more quota or"
        " delete NodeClaims. `az vm list-usage` shows the VM family.",
    ),
    Firing(
        alert="SkuUnavailable",
        series={
            **waiting("ZonalAllocationFailed", "1x90"),
            **conditions("ws1", kind="Launched", reason="ZonalAllocationFailed"),
        },
        at=65,
        severities=("info", "warning"),
        labels={"reason": "ZonalAllocationFailed"},
        summary="1 NodeClaims are waiting for an unavailable size: ZonalAllocationFailed",
        description="Azure has no capacity for the size, or does not offer it to this subscription in this location."
        " NodeClaims: ws1 - the controller retries; another zone or size may be available now.",
    ),
    Firing(
        alert="PurchaseBrake",
        series=ours("gpu_provisioner_purchase_brake_pods", "0x5 2x60"),
        at=12,
        severities=("warning",),
        summary="2 pods did not run on the machines that were bought for them",
    ),
    Firing(
        alert="PodsUnschedulable",
        series=ours("karpenter_scheduler_unschedulable_pods_count", "2x60", controller="provisioner"),
        at=31,
        severities=("warning",),
        summary="No machine of a NodePool can take 2 pending pods",
    ),
    Firing(
        alert="ReplacementsUndone",
        series=ours(
            "karpenter_voluntary_disruption_queue_failures_total",
            "_x9 1x60 2x60",
            decision="replace",
            reason="drifted",
            consolidation_type="",
        ),
        at=75,
        severities=("warning",),
        labels={"reason": "drifted"},
        summary="2 replacements of machines were undone in 30 hours: drifted",
    ),
    # The first replica has counted the first one, the second replica the second one.
    Firing(
        alert="ReplacementsUndone",
        series={
            f'karpenter_voluntary_disruption_queue_failures_total{{{whose},reason="drifted"}}': values
            for whose, values in ((OURS, "_x9 1x30"), (SECOND, "_x35 1x60"))
        },
        at=38,
        severities=("warning",),
        labels={"reason": "drifted"},
        summary="2 replacements of machines were undone in 30 hours: drifted",
    ),
    Firing(
        alert="TerminationStuck",
        series=ours("operator_nodeclaim_termination_current_time_seconds", "0+60x200", name="ws1"),
        at=31,
        severities=("warning",),
        labels={"name": "ws1"},
        summary="NodeClaim ws1 has been deleting for 31m 0s",
        description="Its machine may still be billed. Usual causes: a PodDisruptionBudget blocks an eviction, a volume"
        " remains attached, or Azure does not delete the agent pool. `kubectl describe nodeclaim ws1` shows the cause.",
    ),
    Firing(
        alert="GpusMissing",
        series=ours("gpu_provisioner_gpu_gates_closed", "2x60", reason="PluginKeptAway"),
        at=16,
        severities=("warning",),
        labels={"reason": "PluginKeptAway"},
        summary="2 Ready Nodes lack GPUs: PluginKeptAway",
    ),
    Firing(
        alert="GpuAdmissionErrors",
        series=ours("gpu_provisioner_gpu_admission_errors_total", "0x9 10x120", reason="unregistered"),
        at=30,
        severities=("warning",),
        labels={"reason": "unregistered"},
        summary="The kubelet rejected 10 pods in an hour: unregistered",
    ),
    Firing(
        alert="ReadinessRuleOverdue",
        series=ours("gpu_provisioner_readiness_rules_overdue", "1x60"),
        at=6,
        severities=("warning",),
        summary="1 NodeClaims wait for a readiness rule that is overdue",
    ),
    Firing(
        alert="RepairsSuspended",
        series=ours("gpu_provisioner_repairs_suspended", "3x60"),
        at=6,
        severities=("warning",),
        summary="3 unhealthy machines are kept: others of their size and image failed as well",
    ),
    Firing(
        alert="GpusUnusable",
        series=ours("gpu_provisioner_gpus", "8x200", state="expected", instance_type=H100, gpu_name="H100 80"),
        at=61,
        severities=("warning",),
        labels={"instance_type": H100, "gpu_name": "H100 80"},
        summary="8 H100 80 GPUs are billed and not allocatable",
        description=f"Nodes of size {H100} do not report all their GPUs as allocatable: the device plugin or the driver"
        " is not running, or devices are unhealthy.",
    ),
    Firing(
        alert="GpusUnusable",
        series={
            **ours("gpu_provisioner_gpus", "8x200", state="expected", instance_type=H100, gpu_name="H100 80"),
            **ours("gpu_provisioner_gpus", "7x200", state="allocatable", instance_type=H100, gpu_name="H100 80"),
        },
        at=61,
        severities=("warning",),
        labels={"instance_type": H100, "gpu_name": "H100 80"},
        summary="1 H100 80 GPUs are billed and not allocatable",
        description=f"Nodes of size {H100} do not report all their GPUs as allocatable: the device plugin or the driver"
        " is not running, or devices are unhealthy.",
    ),
    Firing(
        alert="LeakedAgentPools",
        series=ours("gpu_provisioner_leaked_agent_pools", "2x200"),
        at=16,
        severities=("warning",),
        summary="2 agent pools have no NodeClaim and are billed",
    ),
    Firing(
        alert="LeakedAgentPools",
        series=ours("gpu_provisioner_leaked_agent_pools", "2x30 1x60"),
        at=61,
        severities=("warning", "critical"),
        summary="1 agent pools have no NodeClaim and are billed",
    ),
    Firing(
        alert="IdleGpuSpend",
        series=idle(gpus=8, held=2),
        at=121,
        severities=("warning",),
        target={},
        summary="GPUs that no pod requests cost 73.50 per hour",
    ),
    Firing(
        alert="IdleGpuSpend",
        series=idle(gpus=8, held=8, phase="Succeeded"),
        at=121,
        severities=("warning",),
        target={},
        summary="GPUs that no pod requests cost 98.00 per hour",
    ),
    # A Node without allocatable GPUs does not affect other Nodes.
    Firing(
        alert="IdleGpuSpend",
        series={
            **idle(gpus=8, held=4),
            **ours(
                "karpenter_nodes_allocatable",
                "0x200",
                node_name="broken",
                resource_type="nvidia.com/gpu",
                instance_type=H100,
                capacity_type="on-demand",
            ),
        },
        at=121,
        severities=("warning",),
        target={},
        summary="GPUs that no pod requests cost 49.00 per hour",
    ),
    Firing(
        alert="AgentPoolsNearLimit",
        series={
            **ours("gpu_provisioner_agent_pools", "80x60", state="running"),
            **ours("gpu_provisioner_agent_pools", "11x60", state="foreign"),
        },
        at=16,
        severities=("warning",),
        summary="The cluster has 91 agent pools of the 100 that AKS allows",
    ),
    Firing(
        alert="RemovalsRestricted",
        series=ours("gpu_provisioner_removals_restricted", "0x3 1x60"),
        at=5,
        severities=("critical",),
        summary="Garbage collection is restricted: too many machines would be removed at once",
    ),
    Firing(
        alert="RepairsBlocked",
        series=ours("gpu_provisioner_repairs_blocked", "3x60"),
        at=31,
        severities=("warning",),
        summary="3 unhealthy Nodes are not repaired: too many Nodes are unhealthy or terminating",
    ),
    Firing(
        alert="ArmThrottled",
        series=requests(c429="0+1x60", c2xx="0+9x60"),
        at=15,
        severities=("warning",),
        summary="ARM throttles 10% of the controller's requests",
    ),
    Firing(
        alert="CredentialFailing",
        series=ours(
            "gpu_provisioner_credential_failures_total", "_x3 3x10 4+1x60", system="azure", reason="unauthenticated"
        ),
        at=12,
        severities=("critical",),
        labels={"system": "azure", "reason": "unauthenticated"},
        summary="Requests of the controller to azure fail to authenticate: unauthenticated",
    ),
    Firing(
        alert="Down",
        series={f"up{{{OURS}}}": "0x60"},
        at=6,
        severities=("critical",),
        target={},
        summary="Prometheus scrapes no gpu-provisioner",
    ),
    Firing(
        alert="NoLeader",
        series={**ALIVE, **ours("leader_election_master_status", "1x2 0x60", name="lease")},
        at=9,
        severities=("critical",),
        summary="No replica of gpu-provisioner is the leader",
    ),
    Firing(
        alert="ControllerErrors",
        series={**ALIVE, **reconciles("0+1x60", "0+5x60")},
        at=20,
        severities=("warning",),
        labels={"controller": "nodeclaim.lifecycle"},
        summary="20% of the reconciliations of nodeclaim.lifecycle fail",
    ),
    Firing(
        alert="QueueBacklog",
        series={
            **ALIVE,
            **ours("workqueue_depth", "60x60", name="nodeclaim"),
            **ours("leader_election_master_status", "1x60", name="lease"),
        },
        at=16,
        severities=("warning",),
        labels={"name": "nodeclaim"},
        summary="60 keys are waiting in the work queue nodeclaim",
    ),
    # A single replica can run without leader election.
    Firing(
        alert="QueueBacklog",
        series={**ALIVE, **ours("workqueue_depth", "60x60", name="nodeclaim")},
        at=16,
        severities=("warning",),
        labels={"name": "nodeclaim"},
        summary="60 keys are waiting in the work queue nodeclaim",
    ),
    Firing(
        alert="EventLoopBlocked",
        series=ours("gpu_provisioner_event_loop_lag_seconds", "1.5x60"),
        at=6,
        severities=("warning",),
        labels={"instance": "a"},
        summary="The event loop of a was blocked for 1.5s",
    ),
    Firing(
        alert="CacheStale",
        series=ours("gpu_provisioner_cache_age_seconds", "0+60x60", resource="agentpools"),
        at=12,
        severities=("warning",),
        labels={"resource": "agentpools"},
        summary="The cache of agentpools is 12m 0s old",
    ),
    Firing(
        alert="ObjectsSetAside",
        series=ours("gpu_provisioner_cache_unreadable_objects", "1x60", resource="pods"),
        at=6,
        severities=("warning",),
        labels={"resource": "pods"},
        summary="1 objects of the cache of pods are left out",
    ),
    Firing(
        alert="ObjectsSetAside",
        series=ours("gpu_provisioner_object_errors_total", "_x9 1x60", kind="NodePool"),
        at=16,
        severities=("warning",),
        labels={"kind": "NodePool"},
        summary="1 objects of kind NodePool are left out",
    ),
)
