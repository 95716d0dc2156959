"""Where pods may go before machines are chosen: domains of topology constraints, and machines that share pods."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from math import prod

from provisioner.api.labels import HOSTNAME, ZONE
from provisioner.api.requirements import Requirements
from provisioner.api.value_sets import ValueSet
from provisioner.api.zones import is_regional

from .budget import Budget
from .comparisons import DOMAINS_MAX, REMEDY, TooLargeError
from .hosts import Hosts
from .model import TopologyTerm
from .nodes import Host
from .offers import Offers
from .resources import UNLIMITED
from .selection import Pending, Selection, TermIndex
from .steps import DOMAINS_A_STEP, Steps
from .topology import Domains
from .views import inside
from .ways import Way
from .work import Unit, Work


def with_domains(
    work: Work, domains: Domains, offers: Offers, hosts: Hosts, budget: Budget, *, way: Way, steps: Steps
) -> tuple[list[Work], list[Unit]]:
    """The pods divided by the domains that their topology constraints give them, and the units without a domain.

    `budget`: what may still be bought. Raises TooLargeError.
    """
    own, excluded = {term.key for term in work.view.topology if term.key != HOSTNAME}, domains.excluded(work.spec)
    if not own and not excluded:
        return [work], []

    def paid(domain: Mapping[str, str]) -> int:
        return hosts.room(work.spec, inside(work.view, domain), work.requests, len(work.units))

    def cost(domain: Mapping[str, str]) -> float | None:
        steps.count(work.spec, 1)
        found = offers.picked(offers.taking(work, inside(work.view, domain)))
        return next((one.price for one in found), None)

    def supply(domain: Mapping[str, str]) -> int:
        if not way.within_limits:
            return UNLIMITED
        found = [*offers.picked(offers.taking(work, inside(work.view, domain)))]
        steps.count(work.spec, len(found) // DOMAINS_A_STEP)
        return budget.units(work, found)

    keys = (*sorted(own | excluded.keys()),)
    required = work.views[-1]
    offered = offers.kinds(offers.taking(work, required), keys)
    existing = hosts.kinds(required, keys)
    steps.count(work.spec, (len(offered) + len(existing)) * (1 + len(keys)) // 2)
    universe = _universe(work, keys, offered, (one for one, _ in existing))
    found = domains.assign(
        work.spec,
        work.view.topology,
        len(work.units),
        size=work.size,
        excluded=excluded,
        universe=universe,
        eligible=lambda term: _eligible(work, term, offered, hosts),
        present=lambda term: _present(work, term, hosts),
        combinations=lambda wanted: combinations(
            wanted, universe, (*((one, offers.well_known) for one in offered), *existing)
        ),
        paid=paid,
        cost=cost,
        supply=supply,
        way=way,
        steps=steps,
    )
    parts, start, outside = list[Work](), 0, list[Unit]()
    for domain, units, pods in found:
        part, left = work.inside(domain, work.units[start : start + units]).with_first(pods)
        parts.append(part)
        outside += left
        start += units
    return parts, outside + work.units[start:]


def must_join(work: Work, hosts: Hosts, selection: Selection) -> bool:
    """Whether the pods may only join a machine that has the pods that they need beside them."""
    terms = work.colocation
    if not terms or work.size > 1:
        return False
    return hosts.have(terms) or not any(selection.selects(term, work.spec) for term in terms)


def joins(work: Work, host: Host, selection: Selection) -> bool:
    """Whether a machine has the pods that these pods need beside them."""
    return all(any(selection.selects(term, spec) for spec, _ in host.present) for term in work.colocation)


def follows(work: Work, selection: Selection) -> bool:
    """Whether the pods need pods of another group near them, which are placed before them."""
    return any(term.kind == "affinity" and not selection.selects(term, work.spec) for term in work.view.topology)


def counting(works: Iterable[Work], selection: Selection, pending: Pending, steps: Steps) -> TermIndex:
    """The constraints of these pods over domains."""
    found = TermIndex(selection, pending, steps)
    for work in works:
        for term in work.view.topology:
            if term.key != HOSTNAME:
                found.add(term, work.spec)
    return found


def _universe(
    work: Work, keys: Collection[str], offered: Iterable[Requirements], existing: Iterable[Requirements]
) -> dict[str, list[str]]:
    """The domains that the pods may use, by key: those of machines that could be bought, and of existing ones.

    Preferences do not count: kube-scheduler compares the domains that the required terms allow. Zones come before the
    domain of machines outside all zones, which is not added to those of a spread: a machine in it may be anywhere, and
    pods that cannot use it would have to wait for it.
    """
    required = work.views[-1]
    found: dict[str, set[str]] = {}
    for machine in offered:
        _collect(found, keys, machine)
    if any(term.key == ZONE and term.kind == "spread" for term in work.view.topology):
        _prefer_zones(found)
    for machine in existing:
        _collect(found, keys, machine)
    return {
        key: sorted(
            (v for v in values if any(key not in one or one[key].allows(v) for one in required.alternatives)),
            key=lambda value: (key == ZONE and is_regional(value), value),
        )
        for key, values in found.items()
    }


def _eligible(work: Work, term: TopologyTerm, offered: Iterable[Requirements], hosts: Hosts) -> set[str]:
    """The domains that a spread constraint compares: of machines that it concerns, and of those that may be bought.

    The volumes of the pods do not count for the former: kube-scheduler does not compare them with a constraint.
    """
    found: dict[str, set[str]] = {}
    allowed = [one[term.key] for one in work.views[-1].alternatives if term.key in one]
    for machine in offered:
        _collect(found, (term.key,), machine)
    _prefer_zones(found)
    if len(allowed) == len(work.views[-1].alternatives):
        found = {term.key: {v for v in found.get(term.key, ()) if any(one.allows(v) for one in allowed)}}
    return found.get(term.key, set()) | _present(work, term, hosts)


def _present(work: Work, term: TopologyTerm, hosts: Hosts) -> set[str]:
    """The domains of the machines that a spread constraint concerns."""
    keys = {one.key for one in work.view.topology if one.kind == "spread" and one.key != HOSTNAME}
    found: dict[str, set[str]] = {}
    for machine in hosts.concerned(term, work.spec, (*sorted(keys),)):
        _collect(found, (term.key,), machine)
    return found.get(term.key, set())


def _prefer_zones(found: dict[str, set[str]]) -> None:
    """Leave out the domain of machines outside all zones where machines in zones can be bought."""
    if zones := {zone for zone in found.get(ZONE, ()) if not is_regional(zone)}:
        found[ZONE] = zones


def _collect(found: dict[str, set[str]], keys: Iterable[str], requirements: Requirements) -> None:
    for key in keys:
        allowed = requirements.get(key)
        if allowed is not None and not allowed.complement:
            found.setdefault(key, set()).update(allowed.values)


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
