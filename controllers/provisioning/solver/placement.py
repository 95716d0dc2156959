"""Where pods may go before machines are chosen: domains of topology constraints, and machines that share pods."""

from collections.abc import Iterable, Mapping

from provisioner.api.labels import HOSTNAME

from .budget import Budget
from .hosts import Hosts
from .nodes import Host
from .offers import Offers
from .requirements import Requirements, conflict
from .topology import UNLIMITED, Domains, Selection
from .views import inside
from .work import Unit, Work


def with_domains(
    work: Work, domains: Domains, offers: Offers, hosts: Hosts, budget: Budget | None
) -> tuple[list[Work], list[Unit]]:
    """The pods divided by the domains that their topology constraints give them, and the units without a domain.

    `budget`: what may still be bought, None to choose domains as if it were without limits.
    """
    if not domains.concerns(work.spec, work.view.topology):
        return [work], []

    def paid(domain: Mapping[str, str]) -> int:
        return hosts.room(work.spec, inside(work.view, domain), work.requests, len(work.units))

    def cost(domain: Mapping[str, str]) -> float | None:
        found = offers.picked(offers.fitting(work.spec, inside(work.view, domain), work.requests))
        return next((one.price for one in found), None)

    def supply(domain: Mapping[str, str]) -> int:
        if budget is None:
            return UNLIMITED
        found = offers.picked(offers.fitting(work.spec, inside(work.view, domain), work.requests))
        return budget.units(work, found)

    universe = _universe(work, domains.keys, offers, hosts)
    found = domains.assign(
        work.spec,
        work.view.topology,
        len(work.units),
        universe=universe,
        paid=paid,
        cost=cost,
        supply=supply,
    )
    parts, start = [], 0
    for domain, pods in found:
        parts.append(work.inside(domain, work.units[start : start + pods]))
        start += pods
    return parts, work.units[start:]


def bundled(work: Work, hosts: Hosts, selection: Selection) -> Work:
    """Pods that must share one machine with each other become one unit, unless a machine has such pods already."""
    terms = work.colocation
    if work.size > 1 or not any(selection.selects(term, work.spec) for term in terms) or hosts.have(terms):
        return work
    return work.as_one_unit()


def must_join(work: Work, hosts: Hosts, selection: Selection) -> bool:
    """Whether the pods may only join a machine that has the pods that they need beside them."""
    terms = work.colocation
    if not terms or work.size > 1:
        return False
    return hosts.have(terms) or not any(selection.selects(term, work.spec) for term in terms)


def joins(work: Work, host: Host, selection: Selection) -> bool:
    """Whether a machine has the pods that these pods need beside them."""
    return all(any(selection.selects(term, spec) for spec, _, _ in host.present) for term in work.colocation)


def follows(work: Work, selection: Selection) -> bool:
    """Whether the pods need pods of another group near them, which are placed before them."""
    return any(term.kind == "affinity" and not selection.selects(term, work.spec) for term in work.view.topology)


def is_counted(work: Work, others: Iterable[Work], selection: Selection) -> bool:
    """Whether a constraint of other pods over a domain counts these pods."""
    return any(
        term.key != HOSTNAME and selection.selects(term, work.spec)
        for other in others
        if other is not work
        for term in other.view.topology
    )


def _universe(work: Work, keys: Iterable[str], offers: Offers, hosts: Hosts) -> dict[str, list[str]]:
    """The domains that the pods may use, by key: those of machines that could be bought, and of existing ones.

    Preferences do not count: kube-scheduler compares the domains that the required terms allow.
    """
    wanted = {term.key for term in work.view.topology if term.key != HOSTNAME} | {*keys}
    required = work.views[-1]
    found: dict[str, set[str]] = {}
    for candidate in offers.picked(offers.fitting(work.spec, required, work.requests)):
        _collect(found, wanted, candidate.requirements)
    for host in hosts.kinds():
        if any(not conflict(host.requirements, one, host.open_keys) for one in required.alternatives):
            _collect(found, wanted, host.requirements)
    return {
        key: sorted(v for v in values if any(key not in one or one[key].allows(v) for one in required.alternatives))
        for key, values in found.items()
    }


def _collect(found: dict[str, set[str]], keys: Iterable[str], requirements: Requirements) -> None:
    for key in keys:
        allowed = requirements.get(key)
        if allowed is not None and not allowed.complement:
            found.setdefault(key, set()).update(allowed.values)
