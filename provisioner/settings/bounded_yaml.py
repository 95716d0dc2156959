"""YAML of others within bounds: no aliases, limited size, depth and length of numbers.

An alias can make a small file a value that fills the memory, or that contains itself
(https://github.com/kubernetes/kubernetes/issues/83253).
"""

from collections.abc import Iterator
from typing import Any, TextIO

import yaml

# The largest object of an API server has 1.5 MiB; PyYAML reads about 100 kB per second.
CHARACTERS_MAX = 2**20
DEPTH_MAX = 100
NUMBER_CHARACTERS_MAX = 100


class LimitExceeded(yaml.YAMLError):
    """The text is beyond a limit of this module. The message is one line."""


class _Loader(yaml.SafeLoader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise self._beyond("aliases are not supported")
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._beyond(f"nested more than {DEPTH_MAX} levels deep")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def _beyond(self, why: str) -> LimitExceeded:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        return LimitExceeded(f"line {event.start_mark.line + 1}: {why}")

    def construct_number(self, node: Any) -> Any:
        if len(node.value) > NUMBER_CHARACTERS_MAX:
            raise LimitExceeded(f"line {node.start_mark.line + 1}: a number of {len(node.value)} characters")
        construct = yaml.SafeLoader.yaml_constructors[node.tag]
        return construct(self, node)


for _tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float"):
    _Loader.add_constructor(_tag, _Loader.construct_number)


def read(file: TextIO) -> str:
    """The text of the file. Raises LimitExceeded if it is too long, without reading the rest."""
    text = file.read(CHARACTERS_MAX + 1)
    if len(text) > CHARACTERS_MAX:
        raise LimitExceeded(f"more than {CHARACTERS_MAX} characters")
    return text


def check(value: Any, depth: int = 1) -> None:
    """Raises LimitExceeded if a decoded JSON value is nested too deeply, or has a number that is too long."""
    if depth > DEPTH_MAX:
        raise LimitExceeded(f"nested more than {DEPTH_MAX} levels deep")
    if isinstance(value, dict | list):
        for below in value.values() if isinstance(value, dict) else value:
            check(below, depth + 1)
    elif isinstance(value, int) and abs(value) >= 10**NUMBER_CHARACTERS_MAX:
        raise LimitExceeded(f"a number of more than {NUMBER_CHARACTERS_MAX} characters")


def load_all(text: str) -> Iterator[Any]:
    """The documents, one by one. Raises YAMLError (LimitExceeded among others) or ValueError."""
    return yaml.load_all(text, Loader=_Loader)
