"""Series for promtool's unit tests, with one value per minute, and the rows that use them.

`7x30` is 7 for half an hour, `0+60x40` grows by 60 per minute, `_x5` is five minutes without a sample.
"""

from dataclasses import dataclass, field

OURS = 'namespace="gpus",job="gpu-provisioner",instance="a"'
SECOND = OURS.replace('"a"', '"c"')
OTHER = 'namespace="others",job="another-operator",instance="b"'
A100, H100 = "Standard_NC24ads_A100_v4", "Standard_ND96isr_H100_v5"
ALIVE = {f"gpu_provisioner_event_loop_lag_seconds{{{OURS}}}": "0.01x200"}
LABELS = {"namespace": "gpus", "job": "gpu-provisioner"}

Series = dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Firing:
    """At minute `at` the alert fires with these severities, labels and annotations.

    An empty `description` is the alert's own, which then has no template.
    """

    alert: str
    series: Series
    at: int
    severities: tuple[str, ...]
    labels: dict[str, str] = field(default_factory=dict)
    target: dict[str, str] = field(default_factory=lambda: LABELS)
    summary: str
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class NotFiring:
    """The alert does not fire in the first `until` minutes, for the reason `why`."""

    alert: str
    series: Series
    until: int = 180
    why: str


def ours(family: str, values: str, /, **labels: str) -> Series:
    """One series of the leader."""
    given = ",".join([OURS, *(f'{label}="{value}"' for label, value in labels.items())])
    return {f"{family}{{{given}}}": values}


def buckets(size: str, *, within: int, beyond: str) -> Series:
    """Durations until Ready in the bucket with the upper bound `within`; `beyond` is their count over time."""
    name, bounds = "gpu_provisioner_nodeclaim_phase_duration_seconds_bucket", (600, 1200, 1800, 3600)
    found: Series = {}
    for bound in (*bounds, 0):
        reached = not bound or bound >= within
        found |= ours(name, beyond if reached else "0x200", phase="Ready", instance_type=size, le=f"{bound or '+Inf'}")
    return found


def conditions(*claims: str, kind: str, reason: str) -> Series:
    """Claims with that condition at False, for that reason."""
    found: Series = {}
    for name in claims:
        labels = {"type": kind, "status": "False", "reason": reason}
        found |= ours("operator_nodeclaim_status_condition_count", "1x200", name=name, **labels)
    return found


def waiting(reason: str, values: str) -> Series:
    """The number of claims that are not Ready for that reason."""
    return ours("gpu_provisioner_nodeclaims_not_ready", values, condition="Launched", reason=reason)


def requests(**by_code: str) -> Series:
    """Requests to ARM by status code."""
    found: Series = {}
    for code, values in by_code.items():
        name = "gpu_provisioner_arm_request_duration_seconds_count"
        found |= ours(name, values, operation="create", code=code.removeprefix("c"))
    return found


def idle(*, gpus: int, held: int, price: str = "98", phase: str = "Running") -> Series:
    """One Node with GPUs, and one pod that requests some of them."""
    machine = {"instance_type": H100, "capacity_type": "on-demand"}
    pod = 'namespace="default",pod="serve"'
    found = ours("karpenter_nodes_allocatable", f"{gpus}x200", node_name="n", resource_type="nvidia.com/gpu", **machine)
    if price:
        found |= ours("karpenter_cloudprovider_instance_type_offering_price_estimate", f"{price}x200", **machine)
    if phase:
        found[f'kube_pod_container_resource_requests{{{pod},node="n",resource="nvidia_com_gpu"}}'] = f"{held}x200"
        for one in ("Running", "Succeeded"):
            found[f'kube_pod_status_phase{{{pod},phase="{one}"}}'] = f"{int(one == phase)}x200"
    return found


def reconciles(failed: str, done: str, whose: str = OURS) -> Series:
    """Failed and successful reconciliations of one rule."""
    rule = f'{whose},controller="nodeclaim.lifecycle"'
    return {
        f"controller_runtime_reconcile_errors_total{{{rule}}}": failed,
        f'controller_runtime_reconcile_total{{{rule},result="success"}}': done,
    }
