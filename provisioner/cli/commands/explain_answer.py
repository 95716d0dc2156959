"""An answer of `explain`, and its text in the form of `kubectl describe`."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from controllers.provisioning.instances import InstanceTypes
from provisioner.api.text import printable
from provisioner.cli.output import encoded

from .console import moment

COLUMNS = 100
SPOT_UNKNOWN = "Spot prices are not known: spot machines count with their price on demand, which they do not exceed."
# The names of kinds in headings that are made of names in camel case.
KINDS = {"Node pool": "NodePool", "Node claim": "NodeClaim"}


class Entry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One row of a part. `price`: USD an hour. `why` is on a line of its own."""

    name: str
    answer: str
    price: float | None = None
    why: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`answer`: what matters most. `facts`: by name in camel case; a number is a price in USD an hour.

    `parts`: rows by the name of their heading. `unknown`: what the command could not read, or cannot know.
    """

    kind: str
    name: str
    answer: str
    facts: Mapping[str, str | float] = {}
    parts: Mapping[str, tuple[Entry, ...]] = {}
    unknown: tuple[str, ...] = ()


def shown(found: Answer, output: str) -> Iterable[str]:
    """The lines of the answer in this format, without facts and parts that are empty."""
    facts = {key: value for key, value in found.facts.items() if value != ""}
    parts = {key: rows for key, rows in found.parts.items() if rows}
    found = msgspec.structs.replace(found, facts=facts, parts=parts)
    return _lines(found) if output == "text" else [encoded(found, output)]


def usd(price: float | None) -> str:
    """A price an hour."""
    return "price unknown" if price is None else f"{price:.3f} USD/h"


def prices_of(region: str, types: InstanceTypes) -> str:
    """Where prices come from."""
    prices = types.listed
    listed = f"list prices of {region}, {prices.date}" if prices.on_demand else f"no list prices of {region}"
    if prices.read_at is not None:
        listed = f"retail prices of {region}, read {moment(prices.read_at)}; sizes without one: list of {prices.date}"
    stated = (("--prices", types.stated), ("NodeOverlays", bool(types.overlaid.types)))
    sources = " and ".join(name for name, changes in stated if changes)
    return f"{listed}, and prices of {sources}" if sources else listed


def _lines(found: Answer) -> Iterator[str]:
    yield from _wrapped(f"{found.kind} {found.name}: {found.answer}", "  ")
    yield ""
    facts = {f"{_label(key)}:": [v if isinstance(v, str) else usd(v)] for key, v in found.facts.items()}
    yield from _aligned(facts, "")
    for heading, rows in found.parts.items():
        yield f"{_label(heading)}:"
        yield from _aligned({one.name: [_priced(one), *filter(None, [one.why])] for one in rows}, "  ")
    if found.unknown:
        yield "Not known:"
    for text in found.unknown:
        yield from _wrapped(f"  {text}", "    ")


def _label(key: str) -> str:
    words = re.sub("(?<=[a-z])[A-Z]", lambda found: f" {found[0].lower()}", key[:1].upper() + key[1:])
    return next((words.replace(one, kind) for one, kind in KINDS.items() if one in words), words)


def _priced(one: Entry) -> str:
    return one.answer if one.price is None else f"{usd(one.price)}, {one.answer}"


def _aligned(rows: Mapping[str, Iterable[str]], indent: str) -> Iterator[str]:
    width = max(map(len, rows), default=0) + 2
    for name, texts in rows.items():
        head = f"{indent}{name:<{width}}"
        for text in texts:
            yield from _wrapped(head + text, " " * len(head))
            head = " " * len(head)


def _wrapped(text: str, indent: str) -> Iterator[str]:
    """The text in lines of at most `COLUMNS`, the first one as it is and the others indented."""
    yield from textwrap.wrap(
        printable(text), COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
