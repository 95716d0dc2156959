"""Formats of `-o`: a table for people, JSON and YAML for programs."""

from typing import Any

import msgspec
import yaml

FORMATS = ("table", "json", "yaml")


def encoded(value: Any, output: str) -> str:
    """The value as indented JSON or as YAML, without a newline at the end."""
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    text = yaml.safe_dump(msgspec.to_builtins(value), sort_keys=False, allow_unicode=True)
    return str(text).rstrip("\n")
