"""What people choose above the dashboards, and how panels name it."""

from .panels import Variable

# Of rare events: how far back they are counted. Of frequent ones Grafana knows what suits the picture.
WINDOW, RATE = "$window", "$__rate_interval"
# What some panels cannot do without.
KUBE_STATE = "Needs kube-state-metrics in the same Prometheus: the controller does not watch pods."
PRICES = "Needs a price table (`--prices`): nothing is asked of Azure."
# Grafana's unit; the table may be in any currency.
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
