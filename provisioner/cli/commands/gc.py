"""`gc`: what would be removed without anybody's having asked, why, and what it waits for; `--confirm` lifts the
circuit breaker.

`--dry-run`, the default, writes nothing. `--confirm` writes one annotation on the leader's Lease, for exactly
the removals in the table it printed; they remain the controller's to make, each after its own fresh reads.
"""

import argparse

import msgspec

from .clients import Tools, look
from .confirmation import confirm, leader, standing
from .console import Console
from .refusal import OK
from .removals import Survey, survey
from .tables import counted, moment, table

HEAD = ("POOL", "CLAIM", "NODE", "CAUSE", "ACTION", "WAITS FOR", "SINCE")


async def run(tools: Tools, wanted: argparse.Namespace, console: Console) -> int:
    """Print the table, and confirm it if asked to. Raises Refused."""
    found = survey(await look(tools), tools, await standing(tools))
    as_json = wanted.output == "json"
    console.say(*([_json(found)] if as_json else _lines(found)))
    if not wanted.confirm or not found.removals:
        return OK
    lease = (await leader(tools)).metadata
    await console.agree(f"Let the leader make {_these(found)}?", yes=wanted.yes)
    confirmed = await confirm(tools, tuple(removal.pool for removal in found.removals))
    told = f"lease {lease.namespace}/{lease.name}: {_these(found)} confirmed until {moment(confirmed.until)}"
    if as_json:
        console.err.write(f"{told}\n")
    else:
        console.say(told)
    return OK


def _these(found: Survey) -> str:
    return f"the {counted(len(found.removals), 'removal')} above"


def _json(found: Survey) -> str:
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode()


def _lines(found: Survey) -> list[str]:
    if not found.removals:
        return [f"nothing to remove: {_others(found)}"]
    rows = [
        (one.pool, one.claim, one.node, one.cause, one.action, one.waits_for, moment(one.since))
        for one in found.removals
    ]
    verdict = _verdict(found)
    going = counted(len(found.removals), "removal")
    renamed = sum(one.cause == "orphan-pool" and bool(one.claim) for one in found.removals)
    hint = f"{counted(renamed, 'pool')} of another UID than the claim's: from a backup? gpu-provisioner adopt --all"
    return [
        *table(HEAD, rows),
        "",
        f"{going} by inference, allowance {found.allowance} of {counted(found.pools, 'pool')}: {verdict}",
        f"not among them: {_others(found)}",
        *([hint] if renamed else []),
    ]


def _verdict(found: Survey) -> str:
    if not found.confirmed:
        return "the circuit breaker holds them all" if found.restricted else "the circuit breaker lets them pass"
    rest = (
        "; the circuit breaker holds the others" if found.restricted and found.confirmed < len(found.removals) else ""
    )
    return f"{found.confirmed} confirmed until {moment(found.confirmed_until)}{rest}"


def _others(found: Survey) -> str:
    told = [
        f"{counted(found.well, 'agent pool')} of ours",
        f"{counted(found.foreign, 'foreign agent pool')}, never touched",
    ]
    if found.asked:
        told.append(f"{counted(found.asked, 'NodeClaim')} being deleted as asked")
    return "; ".join(told)
