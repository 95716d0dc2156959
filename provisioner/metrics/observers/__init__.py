"""What is told of the running program in numbers: pure observation.

Everything here reads caches, changes of them and outcomes of steps; nothing else reads what is here, and
nothing of it can fail a pass.
"""
