"""The line of a manifest that has a field."""

from collections.abc import Iterator

import yaml

# The items of a list are named by their index, or by a member such as the key of a requirement.
NAMES = ("key", "name")


def line_of(text: str, number: int, field: str) -> int:
    """The line, from 1, of `field` in document `number`, from 0, or of the lowest field above it that is written.

    `text`: YAML or JSON that was parsed before.
    """
    document = next((one for at, one in enumerate(yaml.compose_all(text, yaml.SafeLoader)) if at == number), None)
    return 0 if document is None else _line(document, field)


def _line(node: yaml.Node, field: str) -> int:
    found = next(((key, below, rest) for key, below, rest in _below(node, field)), None)
    if found is None:
        return int(node.start_mark.line) + 1
    key, below, rest = found
    return _line(below, rest) if rest else int(key.start_mark.line) + 1


def _below(node: yaml.Node, field: str) -> Iterator[tuple[yaml.Node, yaml.Node, str]]:
    """The key or item that the path begins with, its value and the rest of the path."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = str(key.value)
            for written in (name, f"[{name}]"):
                if field.startswith(written) and field[len(written) :][:1] in ("", ".", "["):
                    yield key, value, field.removeprefix(written).removeprefix(".")
    elif isinstance(node, yaml.SequenceNode) and field.startswith("["):
        index, _, rest = field[1:].partition("]")
        for at, item in enumerate(node.value):
            if index == str(at) or index in _names(item):
                yield item, item, rest.removeprefix(".")


def _names(item: yaml.Node) -> set[str]:
    members = item.value if isinstance(item, yaml.MappingNode) else []
    return {str(value.value) for key, value in members if key.value in NAMES}
