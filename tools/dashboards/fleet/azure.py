"""Azure: what is asked of it, how it answers, how long it works."""

from tools.dashboards.panels import Panel, Query, Row
from tools.dashboards.promql import DASHBOARD as S
from tools.dashboards.variables import RATE, WINDOW

REQUESTS = "gpu_provisioner_arm_request_duration_seconds"
OPERATIONS = "gpu_provisioner_arm_operation_duration_seconds"
THROTTLED = ("ArmThrottled",)

ROW = Row(
    title="Azure",
    panels=(
        Panel(
            title="Requests to ARM",
            description="By what was asked and how it was answered. A 404 of a GET is how a removal is proved.",
            unit="reqps",
            queries=(
                Query(
                    f"sum by (operation, code) (rate({S.own(f'{REQUESTS}_count')}[{RATE}]))", "{{operation}} {{code}}"
                ),
            ),
            runbooks=(*THROTTLED, "CredentialFailing"),
        ),
        Panel(
            title="Share of 429",
            description="How much of what is asked of ARM it refuses for its rate.",
            unit="percentunit",
            queries=(
                Query(
                    f"({S.events(f'{REQUESTS}_count', WINDOW, code='429')} or vector(0))"
                    f" / {S.events(f'{REQUESTS}_count', WINDOW)}",
                    "429",
                ),
            ),
            steps=((0.05, "red"),),
            runbooks=THROTTLED,
        ),
        Panel(
            title="How long ARM asks us to stay away",
            description="Mean Retry-After of refused calls, and how long our own budget would hold back the next call"
            " of a kind.",
            unit="s",
            queries=(
                Query(
                    S.mean("gpu_provisioner_arm_retry_after_seconds", WINDOW, "operation"), "Retry-After {{operation}}"
                ),
                Query(S.most("gpu_provisioner_arm_budget_wait_seconds", "bucket"), "budget {{bucket}}"),
            ),
            runbooks=THROTTLED,
        ),
        Panel(
            title="ARM's answers, p99",
            description="How long one request takes.",
            unit="s",
            queries=(Query(S.quantile(0.99, REQUESTS, "operation", WINDOW), "{{operation}}"),),
        ),
        Panel(
            title="Azure's work on pools",
            description="From an accepted request to its end: creations and deletions of agent pools.",
            unit="s",
            queries=tuple(
                Query(
                    S.quantile(share, OPERATIONS, "operation, result", WINDOW),
                    f"p{share * 100:g} {{{{operation}}}} {{{{result}}}}",
                )
                for share in (0.5, 0.9)
            ),
            runbooks=("ProvisioningSlow",),
        ),
        Panel(
            title="Refused for their rate, and by whom",
            description="`budget`: held back by ourselves before sending, which costs nothing; `cloud`: 429.",
            queries=(
                Query(S.events("gpu_provisioner_arm_throttled_total", WINDOW, "bucket, by"), "{{bucket}} by {{by}}"),
            ),
            bars=True,
            runbooks=THROTTLED,
        ),
    ),
)
