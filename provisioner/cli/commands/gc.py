"""`gc`: lists inferred removals, their causes, and what they wait for; confirms them with `--confirm`.

`--dry-run`, the default, writes nothing. `--confirm` writes one annotation on the leader's Lease, for exactly the
listed removals, which then pass the circuit breaker. The controller performs them, each after fresh reads.
"""

import argparse

from provisioner.cli.output import encoded

from .clients import Tools, read_state
from .confirmation import confirm, current, leader
from .console import Console, counted, moment, table
from .refusal import OK
from .removals import Survey, survey

HEAD = ("POOL", "CLAIM", "NODE", "CAUSE", "ACTION", "WAITS FOR", "SINCE")


async def run(tools: Tools, wanted: argparse.Namespace, console: Console) -> int:
    """Print the removals, and confirm them with `--confirm`. Raises Refused."""
    found = survey(await read_state(tools), tools, await current(tools))
    for_people = wanted.output == "table"
    console.print(*(_lines(found) if for_people else [encoded(found, wanted.output)]))
    if not wanted.confirm or not found.removals:
        return OK
    lease = (await leader(tools)).metadata
    await console.confirm(f"Confirm {_these(found)}?", yes=wanted.yes)
    confirmed = await confirm(tools, tuple(removal.pool for removal in found.removals))
    done = f"lease {lease.namespace}/{lease.name}: {_these(found)} confirmed until {moment(confirmed.until)}"
    if for_people:
        console.print(done)
    else:
        console.err.write(f"{done}\n")
    return OK


def _these(found: Survey) -> str:
    return f"the {counted(len(found.removals), 'removal')} above"


def _lines(found: Survey) -> list[str]:
    if not found.removals:
        return [f"nothing to remove: {_others(found)}"]
    rows = [
        (one.pool, one.claim, one.node, one.cause, one.action, one.waits_for, moment(one.since))
        for one in found.removals
    ]
    going = f"{counted(len(found.removals), 'removal')} inferred among {counted(found.pools, 'agent pool')}"
    renamed = sum(one.cause == "orphan-pool" and bool(one.claim) for one in found.removals)
    restored = f"{counted(renamed, 'agent pool')} with another UID than the NodeClaim"
    hint = f"{restored}; after a restore: gpu-provisioner adopt --all"
    return [
        *table(HEAD, rows),
        "",
        f"{going}, {found.allowance} allowed in 10 minutes: {_verdict(found)}",
        f"not removed: {_others(found)}",
        *([hint] if renamed else []),
    ]


def _verdict(found: Survey) -> str:
    if not found.confirmed:
        return "restricted by the circuit breaker" if found.restricted else "not restricted"
    rest = "; the others are restricted" if found.restricted and found.confirmed < len(found.removals) else ""
    return f"{found.confirmed} confirmed until {moment(found.confirmed_until)}{rest}"


def _others(found: Survey) -> str:
    others = [
        counted(found.kept, "managed agent pool"),
        counted(found.foreign, "foreign agent pool"),
    ]
    if found.requested:
        others.append(f"{counted(found.requested, 'NodeClaim')} with a deletion request")
    return "; ".join(others)
