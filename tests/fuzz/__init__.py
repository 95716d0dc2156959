"""A fuzzer: objects that the API server accepts, drawn at its limits, against the whole controller.

`python -m tests.fuzz` runs seeds until its time is over, each in a process under the chart's limit of memory.
"""
