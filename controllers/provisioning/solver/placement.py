"""Where pods may go before machines are chosen: domains of topology constraints, and machines that share pods."""

from collections.abc import Iterable, Mapping, Sequence

from provisioner.api.labels import HOSTNAME

from .candidates import Candidate
from .nodes import Host
from .requirements import Requirements, conflict
from .topology import Domains, selects
from .work import Unit, Work


def with_domains(
    work: Work, domains: Domains, offered: Sequence[Candidate], hosts: Sequence[Host], well_known: frozenset[str]
) -> tuple[list[Work], list[Unit]]:
    """The pods divided by the domains that their topology constraints give them, and the units without a domain."""
    if not domains.concerns(work.spec, work.view.topology):
        return [work], []

    def paid(domain: Mapping[str, str]) -> int:
        view = work.inside(domain).view
        return sum(host.room(work.spec, view, work.requests, len(work.units)) for host in hosts)

    def cost(domain: Mapping[str, str]) -> float | None:
        inside = work.inside(domain)
        return next((c.price for c in offered if inside.fits(c, well_known)), None)

    universe = _universe(work, domains.keys, offered, hosts, well_known)
    found = domains.assign(work.spec, work.view.topology, len(work.units), universe=universe, paid=paid, cost=cost)
    parts, start = [], 0
    for domain, pods in found:
        parts.append(work.inside(domain, work.units[start : start + pods]))
        start += pods
    return parts, work.units[start:]


def bundled(work: Work, hosts: Iterable[Host]) -> Work:
    """Pods that must share one machine with each other become one unit, unless a machine has such pods already."""
    terms = work.colocation
    if work.size > 1 or not any(selects(term, work.spec) for term in terms) or _present(work, hosts):
        return work
    return work.as_one_unit()


def must_join(work: Work, hosts: Iterable[Host]) -> bool:
    """Whether the pods may only join a machine that has the pods that they need beside them."""
    return bool(work.colocation) and work.size == 1 and (_present(work, hosts) or _needs_others(work))


def joins(work: Work, host: Host) -> bool:
    """Whether a machine has the pods that these pods need beside them."""
    return all(any(selects(term, spec) for spec, _, _ in host.present) for term in work.colocation)


def follows(work: Work) -> bool:
    """Whether the pods need pods of another group near them, which are placed before them."""
    return any(term.kind == "affinity" and not selects(term, work.spec) for term in work.view.topology)


def is_counted(work: Work, others: Iterable[Work]) -> bool:
    """Whether a constraint of other pods over a domain counts these pods."""
    return any(
        term.key != HOSTNAME and selects(term, work.spec)
        for other in others
        if other is not work
        for term in other.view.topology
    )


def _needs_others(work: Work) -> bool:
    return not any(selects(term, work.spec) for term in work.colocation)


def _present(work: Work, hosts: Iterable[Host]) -> bool:
    return any(selects(t, spec) for host in hosts for spec, _, _ in host.present for t in work.colocation)


def _universe(
    work: Work, keys: Iterable[str], offered: Iterable[Candidate], hosts: Iterable[Host], well_known: frozenset[str]
) -> dict[str, list[str]]:
    """The domains that the pods may use, by key: those of machines that could be bought, and of existing ones.

    Preferences do not count: kube-scheduler compares the domains that the required terms allow.
    """
    wanted = {term.key for term in work.view.topology if term.key != HOSTNAME} | {*keys}
    required = work.views[-1]
    relaxed = Work(spec=work.spec, views=(required,), units=[], requests=work.requests)
    found: dict[str, set[str]] = {}
    for candidate in offered:
        if relaxed.fits(candidate, well_known):
            _collect(found, wanted, candidate.requirements)
    for host in hosts:
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
