"""Helpers of the tests of claims: all versions of an object, conditions, Events and the PUTs of a pool.

They only observe. Versions are recorded in order with their virtual time, so that short-lived states are seen.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import structlog
import yaml

from .stage import Stage

Json = dict[str, Any]

CLAIMS, NODES = "nodeclaims.karpenter.sh", "nodes"
EXAMPLES = Path(__file__).parents[2] / "examples"
USUAL_SECONDS = 900.0
# The messages at level INFO, from the claim to its removal.
LOG_OF_A_LIFE = [
    "created agent pool",
    "launched nodeclaim",
    "registered nodeclaim",
    "initialized nodeclaim",
    "nodeclaim is ready",
    "deleting agent pool",
    "deleted node",
    "deleted nodeclaim",
]


class Seen(NamedTuple):
    """An object as it was from `at` on; None once it is gone."""

    at: float
    obj: Json | None


def versions(sim: Stage, name: str, resource: str = CLAIMS) -> list[Seen]:
    """Every version of that object from now on; the list grows by itself."""
    seen: list[Seen] = []

    def note(event: str, kind: str, obj: Json, _before: Json | None) -> None:
        if kind == resource and obj["metadata"]["name"] == name:
            seen.append(Seen(sim.now, None if event == "DELETED" else obj))

    sim.store.subscribe(note)
    return seen


def example(stem: str) -> Json:
    """One of the shipped examples, as a user applies it."""
    return yaml.safe_load((EXAMPLES / f"{stem}.yaml").read_text(encoding="utf-8"))


def condition(obj: Json | None, kind: str) -> Json:
    """A condition of a claim or a Node; {} if there is none."""
    found = ((obj or {}).get("status") or {}).get("conditions") or ()
    return next((one for one in found if one["type"] == kind), {})


def word(obj: Json | None, kind: str) -> tuple[str, str]:
    """A condition's status and reason."""
    found = condition(obj, kind)
    return found.get("status", ""), found.get("reason", "")


def message(sim: Stage, name: str, kind: str) -> str:
    """The message of a condition of a claim."""
    return condition(sim.claim(name), kind).get("message", "")


async def wait_for_condition(
    sim: Stage, name: str, kind: str, status: str, reason: str, *, within_seconds: float = USUAL_SECONDS
) -> Json:
    """Wait until the claim's condition has this status and reason; the condition."""
    what = f"{name} has {kind}={status} {reason}"
    await sim.until(lambda: word(sim.claim(name), kind) == (status, reason), within_seconds, what)
    return condition(sim.claim(name), kind)


async def ready(sim: Stage, name: str, *, within_seconds: float = USUAL_SECONDS) -> str:
    """Wait until the claim is Ready; its UID."""
    await sim.until(lambda: sim.condition(name, "Ready") == "True", within_seconds, f"{name} is Ready")
    claim = sim.claim(name)
    assert claim is not None
    return claim["metadata"]["uid"]


async def removed(sim: Stage, name: str, *, within_seconds: float = 1200.0) -> None:
    """Delete the claim as a user and wait until it is gone."""
    await sim.delete_claim(name)
    await sim.until(lambda: sim.claim(name) is None, within_seconds, f"{name} is gone")


async def node_of(sim: Stage, pool: str, *, within_seconds: float = USUAL_SECONDS) -> str:
    """Wait until the pool has its one Node; the Node's name."""
    nodes = await sim.until(lambda: sim.nodes_of(pool), within_seconds, f"pool {pool} has a Node")
    assert len(nodes) == 1
    return nodes[0]["metadata"]["name"]


async def node_is_ready(sim: Stage, pool: str, *, within_seconds: float = USUAL_SECONDS) -> str:
    """Wait until the pool's one Node is Ready; its name."""
    await sim.until(
        lambda: any(word(node, "Ready")[0] == "True" for node in sim.nodes_of(pool)),
        within_seconds,
        f"the Node of {pool} is Ready",
    )
    return await node_of(sim, pool)


def puts(sim: Stage, pool: str) -> list[float]:
    """When a PUT of this pool arrived, accepted or not."""
    return [call.at for call in sim.audit_log.calls(verb="PUT", kind="pools", name=pool)]


def arm_calls(sim: Stage, pool: str) -> list[str]:
    """The calls to ARM that named this pool, by verb."""
    return [call.verb for call in sim.audit_log.calls(system="arm", name=pool)]


def created(sim: Stage, pool: str) -> int:
    """How often a pool of this name was created."""
    return sum(put.created for put in sim.cloud.put_log if put.pool == pool)


def events(sim: Stage, name: str, reason: str | None = None) -> list[Json]:
    """The Events about an object, of one reason if given."""
    found = sim.store.list("events")
    return [one for one in found if one["involvedObject"]["name"] == name and reason in (None, one["reason"])]


def first(seen: list[Seen], holds: Callable[[Json], bool]) -> Seen | None:
    """The first version of which that is true."""
    return next((one for one in seen if one.obj is not None and holds(one.obj)), None)


@contextmanager
def passes_over(key: str) -> Iterator[set[str]]:
    """The passes over one key, by their ids in the logs; the set is complete when the context has ended."""
    seen: set[str] = set()
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        yield seen
    seen.update(line["reconcileID"] for line in lines if line.get("key") == key)
