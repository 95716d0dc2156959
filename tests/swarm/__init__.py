"""Runs of the whole controller against a drawn world: drawn facts, features, settings and faults, by seed.

`plan` is everything that a run does; `draw` makes one from a seed; `run` executes it: a phase of faults, then a quiet
one in which everything must converge and nothing may be written, then the removal of everything. `faults.toml` is the
catalogue; each row's verb is a function under `verbs`. `shrink` reduces a plan that fails, `coverage` counts the pairs
of states that were seen.

    python -m tests.swarm --seeds 1- --minutes 60
    python -m tests.swarm --replay plan.json
"""
