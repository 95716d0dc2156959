"""The costs of machines by NodePool, by NodeClaim, or by the pods that request their GPUs.

The cost of a machine is divided among the pods on it by the GPUs that they request; the rest is idle. A device counts
as the part of the machine that one of its devices is, so that slices and shared GPUs count as parts of GPUs. Machines
without GPUs are not divided.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from provisioner.cli.output import encoded

from .console import counted, table
from .cost_machines import MachineCost, PodUse
from .explain_answer import SPOT_UNKNOWN

HOURS = 24
NODEPOOL, NODECLAIM, NAMESPACE = "nodepool", "nodeclaim", "namespace"
# No object and no value of a label has such a name.
NO_NAME, IDLE, NO_GPUS = "<none>", "<idle>", "<no GPUs>"
HEAD = ("MACHINES", "GPUS", "REQUESTED", "USD/H", "USD/DAY", "IDLE", "IDLE USD/H", "SAVED USD/H", "UNPRICED")
# Of sums of floating-point numbers.
DIGITS = 6

BY_MACHINE: Mapping[str, Callable[[MachineCost], str]] = {
    NODEPOOL: lambda one: one.node_pool,
    NODECLAIM: lambda one: one.node_claim or f"node/{one.node}",
}


class Row(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Prices in USD. `machines`: those of which the row has a part; `unpriced`: those of them without a price.

    `idle_share`: of the GPUs, None without GPUs. `saved_per_hour`: what the list price on demand exceeds `per_hour` by,
    of machines with both; None if there is none.
    """

    name: str
    machines: int
    unpriced: int
    gpus: float
    requested: float
    idle_share: float | None
    per_hour: float
    per_day: float
    idle_per_hour: float
    saved_per_hour: float | None


class CostReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`total`: of all machines, each counted once, so that it does not depend on `by`. `notes`: what else to know."""

    by: str
    rows: tuple[Row, ...]
    total: Row
    prices: str
    notes: tuple[str, ...] = ()


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a machine. `share` of it, and the `requested` share of it, which is not idle: from 0 to 1."""

    name: str
    machine: MachineCost
    share: float = 1.0
    requested: float = 0.0


def report(machines: Sequence[MachineCost], by: str, prices: str, unknown: Iterable[str] = ()) -> CostReport:
    """`by`: one of the three names above, or the key of a label of pods. `prices`: where they come from."""
    parts: dict[str, list[Part]] = {}
    for machine in machines:
        for part in _parts(machine, by):
            parts.setdefault(part.name, []).append(part)
    rows = sorted((_row(name, found) for name, found in parts.items()), key=_order)
    total = _row("total", [_whole("total", one) for one in machines])
    return CostReport(by=by, rows=tuple(rows), total=total, prices=prices, notes=(*_notes(machines, by), *unknown))


def shown(found: CostReport, output: str) -> list[str]:
    """The lines of the report in this format."""
    if output != "table":
        return [encoded(found, output)]
    if not found.total.machines:
        return ["No machine of this controller runs: nothing is paid.", *found.notes]
    rows = [(one.name, *_cells(one)) for one in (*found.rows, found.total)]
    return [*table((found.by.upper(), *HEAD), rows), "", f"Prices: {found.prices}", *found.notes]


def _parts(machine: MachineCost, by: str) -> Iterator[Part]:
    name_of = BY_MACHINE.get(by)
    if name_of is not None:
        yield _whole(name_of(machine) or NO_NAME, machine)
    elif not machine.devices:
        yield _whole(NO_GPUS, machine)
    else:
        devices = defaultdict[str, float](float)
        for use in machine.uses:
            devices[_user(use, by)] += use.devices
        shares = {name: amount / machine.devices for name, amount in devices.items() if amount}
        yield from (Part(name=name, machine=machine, share=one, requested=one) for name, one in shares.items())
        if (left := 1.0 - sum(shares.values())) > 10**-DIGITS:
            yield Part(name=IDLE, machine=machine, share=left)


def _user(use: PodUse, by: str) -> str:
    return use.namespace if by == NAMESPACE else use.labels.get(by) or NO_NAME


def _whole(name: str, machine: MachineCost) -> Part:
    used = sum(one.devices for one in machine.uses)
    return Part(name=name, machine=machine, requested=used / machine.devices if machine.devices else 0.0)


def _row(name: str, parts: Sequence[Part]) -> Row:
    gpus = sum(one.machine.gpus * one.share for one in parts)
    requested = sum(one.machine.gpus * one.requested for one in parts)
    priced = [(one, one.machine.price) for one in parts if one.machine.price is not None]
    per_hour = sum(price * one.share for one, price in priced)
    idle = sum(price * (one.share - one.requested) for one, price in priced if one.machine.devices)
    saved = [
        (one.machine.list_price - price) * one.share for one, price in priced if one.machine.list_price is not None
    ]
    return Row(
        name=name,
        machines=len(parts),
        unpriced=len(parts) - len(priced),
        gpus=_rounded(gpus),
        requested=_rounded(requested),
        idle_share=_rounded(1 - requested / gpus) if gpus else None,
        per_hour=_rounded(per_hour),
        per_day=_rounded(per_hour * HOURS),
        idle_per_hour=_rounded(idle),
        saved_per_hour=_rounded(sum(saved)) if saved else None,
    )


def _rounded(amount: float) -> float:
    """Never -0.0, which a sum of shares can be."""
    return round(amount, DIGITS) + 0.0


def _order(row: Row) -> tuple[bool, float, str]:
    """The dearest first, what nobody requests last."""
    return row.name in (IDLE, NO_GPUS), -row.per_hour, row.name


def _cells(row: Row) -> Iterator[str]:
    yield str(row.machines)
    yield f"{row.gpus:.3g}" if row.gpus % 1 else f"{row.gpus:.0f}"
    yield f"{row.requested:.3g}" if row.requested % 1 else f"{row.requested:.0f}"
    unknown = row.unpriced == row.machines > 0
    yield "" if unknown else f"{row.per_hour:.3f}"
    yield "" if unknown else f"{row.per_day:.2f}"
    yield "" if row.idle_share is None else f"{row.idle_share:.0%}"
    yield "" if unknown or row.idle_share is None else f"{row.idle_per_hour:.3f}"
    yield "" if row.saved_per_hour is None else f"{row.saved_per_hour:.3f}"
    yield str(row.unpriced or "")


def _notes(machines: Sequence[MachineCost], by: str) -> Iterator[str]:
    uses = [use for one in machines for use in one.uses]
    if by not in (*BY_MACHINE, NAMESPACE) and uses and not any(by in one.labels for one in uses):
        yield f"No Pod that requests GPUs of these machines has the label {by}."
    if unpriced := sum(one.price is None for one in machines):
        many = counted(unpriced, "machine")
        yield f"{many} without a price: part of no cost. State the price with a NodeOverlay or --prices."
    if unlisted := sum(one.price is not None and one.list_price is None for one in machines):
        yield f"{counted(unlisted, 'machine')} without a list price: part of no saving."
    if any(one.spot_unknown for one in machines):
        yield SPOT_UNKNOWN
