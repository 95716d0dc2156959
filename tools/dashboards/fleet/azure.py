"""Azure: requests to ARM, throttling, and the duration of operations."""

from tools.dashboards.colors import CODES, RESULTS
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
            description="By operation and status code. A 404 for a GET proves that an agent pool is deleted.",
            unit="reqps",
            queries=(
                Query(
                    f"sum by (operation, code) (rate({S.own(f'{REQUESTS}_count')}[{RATE}]))", "{{operation}} {{code}}"
                ),
            ),
            colors=CODES,
            runbooks=(*THROTTLED, "CredentialFailing"),
        ),
        Panel(
            title="Throttled requests",
            description="The share of requests to ARM that fail with 429.",
            unit="percentunit",
            queries=(
                Query(
                    f"({S.events(f'{REQUESTS}_count', WINDOW, code='429')} or vector(0))"
                    f" / {S.events(f'{REQUESTS}_count', WINDOW)}",
                    "429",
                ),
            ),
            steps=((0.05, "red"),),
            colors=CODES,
            runbooks=THROTTLED,
        ),
        Panel(
            title="Delay of requests",
            description="Mean Retry-After of throttled requests, and the delay that the client-side rate limit would"
            " add to the next request of a kind.",
            unit="s",
            queries=(
                Query(
                    S.mean("gpu_provisioner_arm_retry_after_seconds", WINDOW, "operation"), "Retry-After {{operation}}"
                ),
                Query(S.most("gpu_provisioner_arm_rate_limit_wait_seconds", "bucket"), "rate limit {{bucket}}"),
            ),
            runbooks=THROTTLED,
        ),
        Panel(
            title="Duration of requests, 99th percentile",
            description="The duration of one request to ARM.",
            unit="s",
            queries=(Query(S.quantile(0.99, REQUESTS, "operation", WINDOW), "{{operation}}"),),
        ),
        Panel(
            title="Duration of agent pool operations",
            description="From the accepted request to the end of the creation or deletion of an agent pool.",
            unit="s",
            queries=tuple(
                Query(
                    S.quantile(share, OPERATIONS, "operation, result", WINDOW),
                    f"p{share * 100:g} {{{{operation}}}} {{{{result}}}}",
                )
                for share in (0.5, 0.9)
            ),
            colors=RESULTS,
            runbooks=("ProvisioningSlow",),
        ),
        Panel(
            title="Rate-limited requests, by origin",
            description="`budget`: the client-side rate limit, before the request is sent; `cloud`: a 429 of ARM.",
            queries=(
                Query(S.events("gpu_provisioner_arm_throttled_total", WINDOW, "bucket, by"), "{{bucket}} by {{by}}"),
            ),
            bars=True,
            colors={".* by budget": "yellow", ".* by cloud": "orange"},
            runbooks=THROTTLED,
        ),
    ),
)
