"""Variables of the dashboards, and texts that several panels share."""

from .panels import Variable

# The range of rare events is a variable; the range of frequent ones is Grafana's own.
WINDOW, RATE = "$window", "$__rate_interval"
# Prerequisites, for panel descriptions.
KUBE_STATE = "Requires kube-state-metrics in the same Prometheus; the controller does not watch all pods."
PRICES = "Prices are list prices, or those that `--prices` and NodeOverlays state."
# Grafana's unit.
MONEY = "currencyUSD"

CLUSTER = Variable(
    name="cluster", label="Cluster", query="label_values(gpu_provisioner_event_loop_lag_seconds, cluster)", every=True
)
JOB = Variable(
    name="job",
    label="Job",
    query='label_values(gpu_provisioner_event_loop_lag_seconds{cluster=~"$cluster"}, job)',
    every=True,
)
WINDOWS = Variable(name="window", label="Count events over", choices=("1h", "15m", "6h", "1d", "7d"))
SIZES = Variable(
    name="size",
    label="Size",
    query='label_values(gpu_provisioner_nodeclaim_phase_duration_seconds_count{cluster=~"$cluster",job=~"$job"},'
    " instance_type)",
    every=True,
)
