"""Round trips with the real kube-scheduler: what is drawn by seed is bought by the installed program and bound.

`python -m tests.cluster.roundtrip` runs seeds one after the other on one control plane.
"""
