"""`make bench`: what the real program costs and how fast it reacts, against the figures it was built to meet.

Counts are asserted (exit 1 when one is off); times are printed as medians and as ratios to their targets, never
asserted: they are this machine's as much as ours.
"""
