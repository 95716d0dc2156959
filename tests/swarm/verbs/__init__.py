"""What each verb of the catalogue does to the running world: one function for each, by layer.

A verb counts with `run.injected(event)` that it found something to strike, and ends, with what it did undone, within
`event.seconds`.
"""

from tests.swarm import catalogue

from . import azure, gpu_use, gpus, kube, node_objects, nodes, others, people, process, restores, tenants
from .base import VERBS, Verb

__all__ = [
    "VERBS",
    "Verb",
    "azure",
    "gpu_use",
    "gpus",
    "kube",
    "node_objects",
    "nodes",
    "of",
    "others",
    "people",
    "process",
    "restores",
    "tenants",
]


def of(fault: str) -> Verb:
    """The verb of this row of the catalogue. Raises KeyError if no module has it."""
    return VERBS[catalogue.faults()[fault].verb]
