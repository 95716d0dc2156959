"""The domains in which a machine can be under several labels at once: those that exist, not every product of values."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from math import prod

from provisioner.api.requirements import Requirements
from provisioner.api.value_sets import ValueSet

from .comparisons import DOMAINS_MAX, REMEDY, TooLargeError


def combinations(
    keys: Sequence[str],
    universe: Mapping[str, Sequence[str]],
    machines: Iterable[tuple[Requirements, Collection[str]]],
) -> list[tuple[str, ...]]:
    """The values of these labels, in the order of `keys`, that one of the machines has or can have.

    They are in the order of `universe`. `machines`: requirements, and the labels that a machine need not define yet.
    Raises TooLargeError.
    """
    choices = {_choice(machine, keys, universe, open_keys) for machine, open_keys in machines}
    number = sum(prod(map(len, choice)) for choice in choices)
    if number > DOMAINS_MAX:
        raise TooLargeError(
            f"its constraints over {len(keys)} labels have {number:,} combinations of values, at most"
            f" {DOMAINS_MAX:,} are compared: {REMEDY}"
        )
    order = [{value: place for place, value in enumerate(universe.get(key, ()))} for key in keys]
    found = {values for choice in choices for values in product(*choice)}
    return sorted(found, key=lambda values: [order[i][value] for i, value in enumerate(values)])


def _choice(
    machine: Requirements, keys: Iterable[str], universe: Mapping[str, Sequence[str]], open_keys: Collection[str]
) -> tuple[tuple[str, ...], ...]:
    """For each label the values that a machine can have; all of them for a label that it need not define yet."""
    return tuple(
        _values(machine[key], universe.get(key, ()))
        if key in machine
        else tuple(universe.get(key, ()) if key in open_keys else ())
        for key in keys
    )


def _values(allowed: ValueSet, known: Sequence[str]) -> tuple[str, ...]:
    if (value := allowed.single) is not None:
        return (value,) if value in known else ()
    return tuple(value for value in known if allowed.allows(value))
