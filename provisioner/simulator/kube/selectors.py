"""Label and field selectors of query strings.

A selector is parsed once per request, to a predicate over objects; an invalid one is a 400.

Source: https://pkg.go.dev/k8s.io/apimachinery/pkg/labels#Parse,
https://pkg.go.dev/k8s.io/apimachinery/pkg/fields#ParseSelector.
"""

import re
from collections.abc import Callable

from .errors import bad_request
from .objects import Json, dig

Predicate = Callable[[Json], bool]
Labels = dict[str, str]

_TERM = re.compile(
    r"\s*(?:(?P<not>!)?\s*(?P<key>[^\s!=,()<>]+)\s*(?:(?P<op>==|=|!=|<|>|\bin\b|\bnotin\b)\s*(?P<rest>\([^)]*\)|[^,]*))?)\s*$"
)


_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


def _split(text: str) -> list[str]:
    """Split at the commas that are not within parentheses."""
    terms, depth, start = [], 0, 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            terms.append(text[start:position])
            start = position + 1
    return [*terms, text[start:]]


def labels(text: str) -> Callable[[Labels], bool]:
    """A predicate over label maps. Raises ApiError 400 if the selector cannot be parsed."""
    return _all([_label_term(term) for term in _split(text)] if text.strip() else [])


def _all(tests: list[Callable[[Labels], bool]]) -> Callable[[Labels], bool]:
    return lambda found: all(test(found) for test in tests)


def _label_term(term: str) -> Callable[[Labels], bool]:
    match = _TERM.match(term)
    if match is None or (match["not"] and match["op"]):
        raise bad_request(f"unable to parse requirement: found {term.strip()!r}")
    key, operator, rest = match["key"], match["op"], (match["rest"] or "").strip()
    if not _KEY.fullmatch(key):
        raise bad_request(f'unable to parse requirement: <nil>: Invalid value: "{key}": not a label key')
    if operator is None:
        return (lambda found: key not in found) if match["not"] else (lambda found: key in found)
    if operator in {"in", "notin"}:
        if not rest.startswith("("):
            raise bad_request(f"unable to parse requirement: found '{rest}', expected: '('")
        values = [value.strip() for value in rest[1:-1].split(",")]
        if operator == "in":
            return lambda found: found.get(key) in values
        return lambda found: found.get(key) not in values
    if operator in {"<", ">"}:
        if not rest.lstrip("-").isdigit():
            raise bad_request(f"for 'Gt', 'Lt' operators, the value must be an integer: {rest!r}")
        bound = int(rest)
        return lambda found: _integer(found.get(key), bound, above=operator == ">")
    if not _VALUE.fullmatch(rest):
        raise bad_request(f"found '{rest}', expected: ',' or 'end of string'")
    if operator == "!=":
        return lambda found: found.get(key) != rest
    return lambda found: found.get(key) == rest


def _integer(value: str | None, bound: int, *, above: bool) -> bool:
    if value is None or not value.lstrip("-").isdigit():
        return False
    return int(value) > bound if above else int(value) < bound


def label_selector(selector: Json | None) -> Callable[[Labels], bool]:
    """The structured form (`matchLabels`, `matchExpressions`); None selects nothing, {} everything."""
    if selector is None:
        return lambda _: False
    tests = [_equal(key, value) for key, value in (selector.get("matchLabels") or {}).items()]
    tests.append(expressions(selector.get("matchExpressions") or []))
    return _all(tests)


def expressions(listed: list[Json]) -> Callable[[Labels], bool]:
    """The requirements of a label selector or of a node selector term, all of which a label map must meet."""
    tests = []
    for expression in listed:
        key, values = expression["key"], ",".join(expression.get("values") or [])
        forms = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
            "Gt": f"{key} > {values}",
            "Lt": f"{key} < {values}",
        }
        tests.append(_label_term(forms[expression["operator"]]))
    return _all(tests)


def _equal(key: str, value: str) -> Callable[[Labels], bool]:
    return lambda found: found.get(key) == value


def fields(text: str, supported: tuple[str, ...]) -> Predicate:
    """A predicate over objects. Raises ApiError 400 for a field that is not `supported`."""
    tests: list[tuple[str, str, bool]] = []
    for term in text.split(",") if text else []:
        name, operator, value = re.split(r"(!=|==|=)", term, maxsplit=1) if "=" in term else (term, "", "")
        if not operator:
            raise bad_request(f"invalid selector: '{term}'; can't understand '{term}'")
        if name not in supported:
            raise bad_request(f"field label not supported: {name}")
        tests.append((name, value, operator != "!="))
    return lambda obj: all((_text(_field(obj, name)) == value) is wanted for name, value, wanted in tests)


def _field(obj: Json, name: str) -> object:
    """A field as selectors see it: an absent boolean is false, and an Event's source is its reporting controller."""
    if name == "source":
        return dig(obj, "source", "component") or obj.get("reportingComponent")
    found = dig(obj, *name.split("."))
    return found or False if name == "spec.unschedulable" else found


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def selector(label_text: str, field_text: str, supported: tuple[str, ...]) -> Predicate | None:
    """Both selectors of a request as one predicate; None when everything is selected."""
    if not label_text and not field_text:
        return None
    by_label, by_field = labels(label_text), fields(field_text, supported)
    return lambda obj: by_label(obj["metadata"].get("labels") or {}) and by_field(obj)
