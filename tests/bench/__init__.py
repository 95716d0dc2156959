"""`make bench` and `make bench-simulator`: cost and latency of the real program, compared to its targets.

Counts are asserted (exit 1 when one exceeds its target); times are printed as medians and as ratios to their targets,
but not asserted, because they depend on the machine.
"""
