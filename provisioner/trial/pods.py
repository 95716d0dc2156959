"""The run of `try --pods --once`: a pending pod gets a machine, which is removed when the pod is gone.

One pod tolerates the taint of the NodePool and must run on a machine that was created for it; the other one does not
and must stay Pending, with an Event that names the taint. The checks read the API server and ARM over HTTP.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provisioner.api import labels
from provisioner.api.reasons import FAILED_SCHEDULING
from provisioner.operator.azure import CLOUD

from .client import Client, connected
from .end_to_end import busy, not_ready, remaining, until, wrong_order
from .recorder import EventRecorder
from .session import Session

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class PodStory:
    """`missing`: what was expected and not observed. `prices`: USD an hour of each machine, by size.

    `intruder`: why the other pod stayed Pending.
    """

    region: str
    missing: tuple[str, ...] = ()
    prices: tuple[tuple[str, float], ...] = ()
    intruder: str = ""

    @property
    def ok(self) -> bool:
        return not self.missing


async def run_pods(
    session: Session, recorder: EventRecorder, objects: Sequence[Json], *, timeout_seconds: float
) -> PodStory:
    """Create the objects, wait until the pods are where they should be, and delete them.

    `timeout_seconds` is for each of the waits.
    """
    region = session.world.settings.azure.location
    pods = [obj for obj in objects if obj["kind"] == "Pod"]
    async with connected(session.world, session.addresses) as client:
        play = _Play(client, pods)
        for obj in objects:
            await client.apply(obj)
        for check in (play.not_running, play.not_explained, play.claims_not_ready, lambda: busy(session, recorder)):
            if missing := await until(check, timeout_seconds):
                return PodStory(region=region, missing=tuple(missing))
        claims = await client.claims()
        prices = _prices(claims, CLOUD.list_prices(region).on_demand)
        recorder.user("deletes the pods that run")
        for pod in play.tolerant:
            await client.delete(pod, "Pod")
        missing = await until(play.not_deleted, timeout_seconds)
        missing = missing or await until(lambda: remaining(client), timeout_seconds)
        uids = {name: claim["metadata"]["uid"] for name, claim in claims.items()}
        missing = missing or wrong_order(session, uids, replaced=True) or await play.not_pending()
        return PodStory(region=region, missing=tuple(missing), prices=prices, intruder=play.why)


class _Play:
    """The checks; each returns what is missing. `why`: the Event of the pods that do not tolerate the taint."""

    def __init__(self, client: Client, pods: Sequence[Json]) -> None:
        self._client = client
        self.tolerant = [pod["metadata"]["name"] for pod in pods if pod["spec"].get("tolerations")]
        self._intruders = [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("tolerations")]
        self.why = ""

    async def not_running(self) -> list[str]:
        pods = await self._client.all("Pod")
        nodes = await self._client.nodes()
        missing = []
        for name in self.tolerant:
            pod = pods.get(name, {})
            if pod.get("status", {}).get("phase") != "Running":
                missing.append(f"pod {name} is not Running")
            elif pod["spec"]["nodeName"] not in nodes:
                missing.append(f"pod {name} runs on {pod['spec']['nodeName']}, which was not created for it")
        return missing

    async def not_explained(self) -> list[str]:
        """Whether an Event of the controller names the taint that an intruder does not tolerate."""
        events = (await self._client.all("Event")).values()
        messages = {
            event["involvedObject"]["name"]: event["message"]
            for event in events
            if event["reason"] == FAILED_SCHEDULING and "did not tolerate taint" in event["message"]
        }
        self.why = next((messages[name] for name in self._intruders if name in messages), "")
        return [f"pod {name}: no Event names the taint" for name in self._intruders if name not in messages]

    async def claims_not_ready(self) -> list[str]:
        return await not_ready(self._client, list(await self._client.claims()))

    async def not_deleted(self) -> list[str]:
        pods = await self._client.all("Pod")
        return [f"pod {name} still exists" for name in self.tolerant if name in pods]

    async def not_pending(self) -> list[str]:
        pods = await self._client.all("Pod")
        return [
            f"pod {name} is not Pending"
            for name in self._intruders
            if pods.get(name, {}).get("status", {}).get("phase") != "Pending"
        ]


def _prices(claims: dict[str, Json], prices: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    sizes = [claim["metadata"]["labels"][labels.INSTANCE_TYPE] for claim in claims.values()]
    return tuple((size, prices.get(size.lower(), 0.0)) for size in sizes)
