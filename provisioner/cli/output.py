"""Formats of `-o`: a table for people, JSON and YAML for programs."""

from typing import Any

import msgspec
import yaml

from provisioner.api.text import printable

FORMATS = ("table", "json", "yaml")
# Of an answer that is no table.
TEXT_FORMATS = ("text", "json", "yaml")
# Of a file for another program, which has no columns.
VALUES_FORMATS = ("yaml", "json")


def encoded(value: Any, output: str) -> str:
    """The value as indented JSON or as YAML, printable, without a newline at the end."""
    if output == "json":
        return printable(msgspec.json.format(msgspec.json.encode(value), indent=2).decode(), keep="\n")
    text = yaml.safe_dump(msgspec.to_builtins(value), sort_keys=False)
    return str(text).rstrip("\n")
