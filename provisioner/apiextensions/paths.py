"""Paths of fields in the notation of apimachinery's `field.Path`, such as `spec.requirements[0].key`."""

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]


def dotted(path: Iterable[str | int]) -> str:
    """The text of a path of names and list indexes."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def is_within(field: str, parent: str) -> bool:
    """Whether the field is the parent or below it; every field is below ""."""
    return not parent or field == parent or field.startswith((f"{parent}.", f"{parent}["))
