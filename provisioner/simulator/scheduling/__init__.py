"""kube-scheduler and the DaemonSet controller of the simulated cluster."""
