"""CEL selectors of devices, compared with the GPUs of a VM size: the forms that name driver, type, product and memory.

An expression is a conjunction of comparisons with constants. Other expressions are refused: the devices of a machine
that does not exist have no further attributes. A pattern of `matches` may only be a text with `.*`, `^` and `$` around
it, because regular expressions of users can take any time.

Source: https://kubernetes.io/docs/reference/using-api/cel/, docs/references/kubernetes.md#dynamic-resource-allocation.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from cloudprovider.cloud import DeviceTemplate
from provisioner.api.quantity import parse_quantity
from provisioner.api.text import quoted

REMEDY = (
    "compare device.driver, or type, productName and memory of its GPUs, with constants, joined by &&, or select the"
    " size with a node selector"
)
EXPRESSION_BYTES = 2048

Comparison = Callable[[DeviceTemplate], bool]
_TEXT = r"(?:'(?P<single>[^'\\]*)'|\"(?P<double>[^\"\\]*)\")"
_PATH = r"device\.(?P<of>attributes|capacity)\[['\"](?P<domain>[a-z0-9.-]+)['\"]\]\.(?P<name>[A-Za-z0-9]+)"
_LOWER = r"(?P<lower>\.lowerAscii\(\))?"
_DRIVER = re.compile(rf"device\.driver\s*(?P<operator>==|!=)\s*{_TEXT}")
_EQUALS = re.compile(rf"{_PATH}{_LOWER}\s*(?P<operator>==|!=)\s*{_TEXT}")
_METHOD = re.compile(rf"{_PATH}{_LOWER}\.(?P<operator>contains|startsWith|endsWith|matches)\(\s*{_TEXT}\s*\)")
_COMPARE = re.compile(rf"{_PATH}\.compareTo\(\s*quantity\(\s*{_TEXT}\s*\)\s*\)\s*(?P<operator>==|!=|>=|<=|>|<)\s*0")
_GREATER = re.compile(rf"{_PATH}\.(?P<operator>isGreaterThan|isLessThan)\(\s*quantity\(\s*{_TEXT}\s*\)\s*\)")
_PATTERN = re.compile(r"(?P<start>\^?)(?P<any>\.\*)?(?P<text>[A-Za-z0-9 _-]+)(?P<rest>\.\*)?(?P<end>\$?)")
_COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "==": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
    ">=": lambda one, other: one >= other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    "<": lambda one, other: one < other,
    "isGreaterThan": lambda one, other: one > other,
    "isLessThan": lambda one, other: one < other,
}
_METHODS: Mapping[str, Callable[[str, str], bool]] = {
    "==": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
    "contains": lambda one, other: other in one,
    "startsWith": lambda one, other: one.startswith(other),
    "endsWith": lambda one, other: one.endswith(other),
}


@lru_cache(maxsize=512)
def selector(expression: str) -> Callable[[DeviceTemplate], bool]:
    """Whether the expression selects a device. Raises ValueError that says what is not supported.

    An attribute that is not known of a device selects nothing; one that is known of none is not supported.
    """
    if len(expression) > EXPRESSION_BYTES:
        raise _unsupported(expression, f"it is longer than {EXPRESSION_BYTES} characters")
    comparisons = [_comparison(part.strip(), expression) for part in _conjuncts(expression)]
    return lambda device: all(compare(device) for compare in comparisons)


def drivers(expression: str) -> tuple[str, ...]:
    """The drivers that devices must have to be selected: what `device.driver ==` compares. Empty if none is known."""
    if len(expression) > EXPRESSION_BYTES:
        return ()
    found = (_DRIVER.fullmatch(part.strip()) for part in _conjuncts(expression))
    return tuple(_text(one) for one in found if one is not None and one["operator"] == "==")


def _conjuncts(expression: str) -> list[str]:
    """The parts between `&&` outside of texts."""
    parts, start, quote, at = list[str](), 0, "", 0
    while at < len(expression):
        character = expression[at]
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif expression.startswith("&&", at):
            parts.append(expression[start:at])
            start = at = at + 2
            continue
        at += 1
    return [*parts, expression[start:]]


def _comparison(part: str, expression: str) -> Comparison:
    if part == "true":
        return lambda _: True
    if found := _DRIVER.fullmatch(part):
        return _of_driver(found)
    if (found := _EQUALS.fullmatch(part) or _METHOD.fullmatch(part)) and found["of"] == "attributes":
        return _of_attribute(found, expression)
    if (found := _COMPARE.fullmatch(part) or _GREATER.fullmatch(part)) and found["of"] == "capacity":
        return _of_capacity(found, expression)
    raise _unsupported(expression, f"it has {quoted(part)}")


def _of_driver(found: re.Match[str]) -> Comparison:
    wanted, compare = _text(found), _METHODS[found["operator"]]
    return lambda device: compare(device.driver, wanted)


def _of_attribute(found: re.Match[str], expression: str) -> Comparison:
    name, domain, wanted = found["name"], found["domain"], _text(found)
    if name not in ("type", "productName"):
        raise _unsupported(expression, f"attribute {name} is not known before the machine exists")
    compare = _pattern(wanted, expression) if found["operator"] == "matches" else _METHODS[found["operator"]]

    def compared(device: DeviceTemplate) -> bool:
        value = device.type if name == "type" else device.product
        if domain != device.driver or value is None:
            return False
        return compare(value.lower() if found["lower"] else value, wanted)

    return compared


def _of_capacity(found: re.Match[str], expression: str) -> Comparison:
    name, domain, compare = found["name"], found["domain"], _COMPARED[found["operator"]]
    if name != "memory":
        raise _unsupported(expression, f"capacity {name} is not known before the machine exists")
    try:
        wanted = int(parse_quantity(_text(found)))
    except ValueError as error:
        raise ValueError(f"selector {quoted(expression, 160)}: {error}; use a quantity such as 40Gi") from None
    return lambda device: domain == device.driver and device.memory is not None and compare(device.memory, wanted)


def _pattern(pattern: str, expression: str) -> Callable[[str, str], bool]:
    """A pattern that is a text with `.*`, `^` and `$` around it."""
    found = _PATTERN.fullmatch(pattern)
    if found is None:
        raise _unsupported(expression, f"the pattern {quoted(pattern)} is more than a text")
    text, at_start = found["text"], bool(found["start"]) and not found["any"]
    at_end = bool(found["end"]) and not found["rest"]
    if at_start and at_end:
        return lambda value, _: value == text
    if at_start or at_end:
        return lambda value, _: value.startswith(text) if at_start else value.endswith(text)
    return lambda value, _: text in value


def _unsupported(expression: str, why: str) -> ValueError:
    return ValueError(f"selector {quoted(expression, 160)} is not supported: {why}; {REMEDY}")


def _text(found: re.Match[str]) -> str:
    return found["single"] if found["single"] is not None else found["double"] or ""
