"""Pods that required or preferred affinity by hostname binds to one machine, as one unit with all of their requests.

A family is a root, which can start on an empty machine, and the pods that need it, or each other, beside them. Each
unit of the root reserves room for its share of the others, so that the machine is large enough for all. Of a family
that no machine takes as a whole, as many pods as fit are placed.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity.
"""

from collections.abc import Sequence
from dataclasses import replace

from .host_room import host_room
from .hosts import Hosts
from .offers import Offers
from .placement import joins
from .resources import total
from .selection import Selection
from .steps import TERMS_A_STEP, Steps
from .work import Unit, Work


def families(order: Sequence[Work], hosts: Hosts, selection: Selection, steps: Steps) -> dict[int, list[Work]]:
    """The other pods of each family by the identity of its root, each after those that it needs.

    None are found once the steps are spent.
    """
    bound = [work for work in order if work.colocation and not _has_place(work, hosts, selection)]
    groups: dict[int, list[Work]] = {}
    for work in bound:
        steps.count(work.spec, 1 + len(work.colocation) * len(order) // TERMS_A_STEP)
        if steps.spent:
            return {}
        for term in work.colocation:
            others = [one for one in order if one is not work and selection.selects(term, one.spec)]
            if not selection.selects(term, work.spec):
                # One group suffices; those that need nothing themselves are placed anyway.
                others = sorted(others, key=lambda one: bool(one.colocation))[:1]
            for other in others:
                _unite(groups, work, other)
    found: dict[int, list[Work]] = {}
    needy = {id(work) for work in bound}
    for group in {id(group): group for group in groups.values()}.values():
        own = {id(work) for work in group}
        members = [work for work in order if id(work) in own]
        free = [work for work in members if id(work) not in needy]
        sufficient = [work for work in members if _needs(work, [work], selection)]
        root = next(iter((*free, *sufficient)), None)
        if root is not None:
            found[id(root)] = _ordered(root, free, members, selection, steps)
    return found


def bundles(
    work: Work, members: Sequence[Work], hosts: Hosts, offers: Offers, selection: Selection
) -> tuple[list[Work], list[Unit]]:
    """The pods as units that need one machine each, and those that have no place in any unit.

    `members`: the other pods of the family of which they are the root.
    """
    terms = work.colocation
    together = any(selection.selects(term, work.spec) for term in terms) and not hosts.have(terms)
    if work.size > 1 or not (together or members):
        return [work], []
    most = _most_on_one(work, selection) if together else len(work.units)
    alone, work = work.units[most:], replace(work, units=work.units[:most])
    whole = work.as_one_unit() if together else work
    count = 1 if together else min(len(work.units), max(_machines(one, selection) for one in members))
    shares: dict[tuple[int, ...], list[Unit]] = {}
    for number in range(count):
        share = tuple(_share(one, number, count, selection) for one in members)
        shares.setdefault(share, []).append(whole.units[number])
    found, left = [replace(whole, units=whole.units[count:])] if whole.units[count:] else [], alone
    for share, units in shares.items():
        followers = tuple((one, pods) for one, pods in zip(members, share, strict=True) if pods)
        family = replace(whole, units=units, followers=followers)
        one, outside = limited(family, _most(family, hosts, offers))
        found.append(one)
        left += outside
    return found, left


def limited(work: Work, pods: int) -> tuple[Work, list[Unit]]:
    """Units of at most so many pods each, those of the root first; and the pods of the root that they leave out."""
    size = min(work.size, pods)
    left = pods - size
    followers = []
    for follower, number in work.followers:
        if number and left:
            followers.append((follower, min(number, left)))
            left -= followers[-1][1]
    parts = [(work.spec.requests, size), *((follower.requests, number) for follower, number in followers)]
    requests = total({name: amount * number for name, amount in one.items()} for one, number in parts)
    outside: list[Unit] = [(name,) for unit in work.units for name in unit[size:]]
    units = [unit[:size] for unit in work.units]
    return replace(work, units=units, requests=requests, followers=tuple(followers)), outside


def _most(work: Work, hosts: Hosts, offers: Offers) -> int:
    """How many pods of a unit some machine takes together, at least one."""

    def fits(pods: int) -> bool:
        one, _ = limited(work, pods)
        return bool(offers.taking(one)) or hosts.has_room(one.spec, one.view, one.requests)

    least, most = 1, work.pods
    if most == 1 or fits(most):
        return most
    while least < most - 1:
        middle = (least + most) // 2
        least, most = (middle, most) if fits(middle) else (least, middle)
    return least


def _unite(groups: dict[int, list[Work]], one: Work, other: Work) -> None:
    first, second = groups.setdefault(id(one), [one]), groups.setdefault(id(other), [other])
    if first is not second:
        first += second
        groups |= {id(work): first for work in second}


def _ordered(
    root: Work, free: Sequence[Work], members: Sequence[Work], selection: Selection, steps: Steps
) -> list[Work]:
    """The members besides the root, each after those that it needs; those that can never start are left out."""
    found = [root, *(work for work in free if work is not root)]
    placed = {id(work) for work in found}
    rest = [work for work in members if id(work) not in placed]
    while rest and not steps.spent:
        ready = list[Work]()
        for work in rest:
            steps.count(work.spec, 1 + len(work.colocation) * len(found) // TERMS_A_STEP)
            if not steps.spent and _needs(work, [*found, work], selection):
                ready.append(work)
                found.append(work)
        if not ready:
            break
        placed = {id(work) for work in ready}
        rest = [work for work in rest if id(work) not in placed]
    return found[1:]


def _needs(work: Work, beside: Sequence[Work], selection: Selection) -> bool:
    """Whether all that a pod needs on its machine is beside it."""
    return all(any(selection.selects(term, one.spec) for one in beside) for term in work.colocation)


def _has_place(work: Work, hosts: Hosts, selection: Selection) -> bool:
    """Whether a machine that has what the pods need beside them has room for one more."""
    if not hosts.have(work.colocation):
        return False
    return any(
        joins(work, host, selection) and host.room(work.spec, work.view, work.requests, 1, selection)
        for host in hosts.with_room(work.spec, work.view, work.requests)
    )


def _most_on_one(work: Work, selection: Selection) -> int:
    """How many of the pods one machine takes, what they need beside them aside."""
    terms = [term for term in work.view.topology if term.kind != "affinity"]
    return min(len(work.units), max(1, host_room((), work.spec, terms, selection)))


def _machines(work: Work, selection: Selection) -> int:
    """Over how many machines the pods of a member may be divided."""
    return 1 if _is_group(work, selection) or not work.colocation else len(work.units)


def _share(work: Work, number: int, count: int, selection: Selection) -> int:
    """How many pods of a member are beside unit `number` of `count` units of the root."""
    if not work.colocation:
        return int(number < len(work.units))
    if _is_group(work, selection):
        return _most_on_one(work, selection) if number == 0 else 0
    pods, more = divmod(len(work.units), count)
    return min(pods + (number < more), _most_on_one(work, selection))


def _is_group(work: Work, selection: Selection) -> bool:
    """Whether the pods need each other."""
    return any(selection.selects(term, work.spec) for term in work.colocation)
