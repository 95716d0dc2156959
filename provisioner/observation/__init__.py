"""What is told of the running program in numbers: pure observation.

Promise: everything here reads caches, changes of them and outcomes of steps; nothing else reads what is here, and
nothing of it can fail a pass.
Left to others: the names (`provisioner.families`), making families (`runtime.metrics`).
"""
