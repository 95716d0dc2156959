"""When alerts keep quiet, and why that is right."""

from .alert_series import A100, ALIVE, H100, OTHER, SECOND, Silence, buckets, idle, ours, passes, requests, waiting

SILENCES = (
    Silence(
        alert="ClaimStuck",
        series=ours(
            "gpu_provisioner_nodeclaims_not_ready_oldest_seconds",
            " ".join(["0+60x20"] * 8),
            condition="Launched",
            reason="Creating",
        ),
        why="each claim got Ready after twenty minutes at most",
    ),
    Silence(
        alert="ProvisioningSlow",
        series=buckets(A100, within=1200, beyond="0+1x180"),
        why="all machines came within their time",
    ),
    Silence(
        alert="ProvisioningSlow",
        series={
            **buckets(H100, within=1800, beyond="_x5 5x175"),
            f'gpu_provisioner:provisioning_budget_seconds{{instance_type="{H100}"}}': "2400x200",
        },
        why="this size is given more time than others",
    ),
    Silence(
        alert="QuotaExhausted", series=waiting("AllocationFailed", "5x200"), why="it is not for quota that they wait"
    ),
    Silence(alert="QuotaExhausted", series=waiting("QuotaExceeded", "0x200"), why="nobody waits"),
    Silence(alert="SkuUnavailable", series=waiting("QuotaExceeded", "5x200"), why="it is for quota that they wait"),
    Silence(alert="SkuUnavailable", series=waiting("Creating", "5x200"), why="Azure is making the machines"),
    Silence(
        alert="TerminationStuck",
        series=ours("operator_nodeclaim_termination_current_time_seconds", "0+60x30 _x150", name="ws1"),
        why="it was gone after half an hour",
    ),
    Silence(
        alert="GpusUnusable",
        series={
            **ours("gpu_provisioner_gpus", "8x200", state="expected", instance_type=H100, gpu_name="H100 80"),
            **ours("gpu_provisioner_gpus", "_x50 8x150", state="allocatable", instance_type=H100, gpu_name="H100 80"),
        },
        why="the machine took 50 minutes, and then offered all",
    ),
    Silence(
        alert="LeakedAgentPools",
        series=ours("gpu_provisioner_leaked_agent_pools", " ".join(["0x10 1x10"] * 8)),
        why="each was collected within ten minutes",
    ),
    Silence(alert="IdleGpuSpend", series=idle(gpus=8, held=8), why="all GPUs are held"),
    Silence(alert="IdleGpuSpend", series=idle(gpus=8, held=0, price="9"), why="nine dollars an hour are not ten"),
    Silence(alert="IdleGpuSpend", series=idle(gpus=8, held=0, price=""), why="nobody has given prices"),
    Silence(alert="IdleGpuSpend", series=idle(gpus=8, held=0, phase=""), why="without kube-state-metrics nobody knows"),
    Silence(
        alert="AgentPoolsNearLimit",
        series={
            **ours("gpu_provisioner_agent_pools", "80x200", state="running"),
            **ours("gpu_provisioner_agent_pools", "10x200", state="foreign"),
        },
        why="ninety are not near enough",
    ),
    Silence(
        alert="RemovalsBraked",
        series=ours("gpu_provisioner_removals_braked", "0x200"),
        why="removals go their way",
    ),
    Silence(
        alert="RepairsBlocked",
        series=ours("gpu_provisioner_repairs_blocked", " ".join(["1x20 0x10"] * 6)),
        why="each had to wait for twenty minutes at most",
    ),
    Silence(alert="ArmThrottled", series=requests(c429="0+1x200", c2xx="0+99x200"), why="one in a hundred is refused"),
    Silence(
        alert="CredentialFailing",
        series=ours("gpu_provisioner_credential_failures_total", "0x20 2x180", system="azure", reason="no_token"),
        why="two requests failed, and then none",
    ),
    Silence(alert="Down", series=ALIVE, why="it is scraped"),
    Silence(
        alert="NoLeader",
        series={
            **ALIVE,
            f"gpu_provisioner_event_loop_lag_seconds{{{SECOND}}}": "0.01x200",
            **ours("leader_election_master_status", "1x60 0x140", name="lease"),
            f'leader_election_master_status{{{SECOND},name="lease"}}': "0x62 1x138",
        },
        why="one replica took over from the other within minutes",
    ),
    Silence(
        alert="NoLeader",
        series={**ALIVE, f'leader_election_master_status{{{OTHER},name="their-lease"}}': "0x200"},
        why="it is another operator that has no leader",
    ),
    Silence(alert="ControllerErrors", series={**ALIVE, **passes("0+1x200", "0+49x200")}, why="one in fifty fails"),
    Silence(
        alert="ControllerErrors",
        series={**ALIVE, **passes("0+1x200", "0+2x200", OTHER)},
        why="it is another operator whose passes fail",
    ),
    Silence(
        alert="QueueBacklog",
        series={
            **ALIVE,
            **ours("workqueue_depth", "60x200", name="nodeclaim"),
            **ours("leader_election_master_status", "0x200", name="lease"),
        },
        why="a replica that waits for the lease has nothing to do with its keys",
    ),
    Silence(
        alert="QueueBacklog",
        series={**ALIVE, **ours("workqueue_depth", "50x200", name="nodeclaim")},
        why="fifty are not many",
    ),
    Silence(
        alert="EventLoopBlocked",
        series=ours("gpu_provisioner_event_loop_lag_seconds", " ".join(["0.9x10 3x3"] * 15)),
        why="it was held up for moments",
    ),
    Silence(
        alert="CacheStale",
        series=ours("gpu_provisioner_cache_age_seconds", " ".join(["0+60x9"] * 20), resource="nodes"),
        why="the server was heard of every nine minutes at least",
    ),
)
