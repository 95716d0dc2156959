"""The rows of the tables: the meaning of a condition's reason, and of an Event."""

from typing import Literal

import msgspec

from provisioner.api.conditions import Status

About = Literal[
    "NodeClaim", "NodePool", "Node", "Pod", "GKMCacheNode", "ClusterGKMCacheNode", "TerminateNode", "RebootNode"
]


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """`name` on the condition `on`, with any of `statuses`. `look` and `remedy` are empty where nothing is wrong."""

    on: str
    statuses: tuple[Status, ...]
    name: str
    meaning: str
    look: str = ""
    remedy: str = ""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An Event without a change of a condition, on any of the kinds in `about`."""

    name: str
    kind: Literal["Normal", "Warning"]
    about: tuple[About, ...]
    meaning: str
    remedy: str = ""


def is_true(on: str, name: str, meaning: str) -> Reason:
    """A condition that is True and needs no remedy."""
    return Reason(on=on, statuses=("True",), name=name, meaning=meaning)


def is_unknown(on: str, name: str, meaning: str, look: str, remedy: str) -> Reason:
    """A condition that is Unknown: an operation is in progress, or is blocked."""
    return Reason(on=on, statuses=("Unknown",), name=name, meaning=meaning, look=look, remedy=remedy)


def is_false(on: str, name: str, meaning: str, look: str, remedy: str) -> Reason:
    """A condition that is False."""
    return Reason(on=on, statuses=("False",), name=name, meaning=meaning, look=look, remedy=remedy)


def is_not_true(on: str, name: str, meaning: str, look: str, remedy: str) -> Reason:
    """A condition that is Unknown until the NodeClaim was Initialized for the first time, and False afterwards."""
    return Reason(on=on, statuses=("Unknown", "False"), name=name, meaning=meaning, look=look, remedy=remedy)
