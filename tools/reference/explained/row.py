"""The rows: what a condition's reason, and an Event's, means to the person who reads it."""

from typing import Literal

import msgspec

Status = Literal["True", "False", "Unknown"]
About = Literal["NodeClaim", "Node", "Pod"]


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """`name` on the condition `on`, with any of `statuses`. `look` and `remedy` are empty where nothing is wrong."""

    on: str
    statuses: tuple[Status, ...]
    name: str
    meaning: str
    look: str = ""
    remedy: str = ""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """An Event of its own, on any of the kinds in `about`."""

    name: str
    kind: Literal["Normal", "Warning"]
    about: tuple[About, ...]
    meaning: str
    remedy: str = ""


def good(on: str, name: str, meaning: str) -> Reason:
    """A condition that is True, which needs nobody."""
    return Reason(on=on, statuses=("True",), name=name, meaning=meaning)


def waiting(on: str, name: str, meaning: str, look: str = "", remedy: str = "") -> Reason:
    """A condition that is Unknown: something is under way, or in the way."""
    return Reason(on=on, statuses=("Unknown",), name=name, meaning=meaning, look=look, remedy=remedy)


def bad(on: str, name: str, meaning: str, look: str, remedy: str) -> Reason:
    """A condition that is False."""
    return Reason(on=on, statuses=("False",), name=name, meaning=meaning, look=look, remedy=remedy)


def lost(on: str, name: str, meaning: str, look: str, remedy: str) -> Reason:
    """Unknown until the claim was usable for the first time, False if it was and is no more."""
    return Reason(on=on, statuses=("Unknown", "False"), name=name, meaning=meaning, look=look, remedy=remedy)
