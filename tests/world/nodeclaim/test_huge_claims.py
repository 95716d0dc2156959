"""Claims as large as the API server accepts: they cost themselves only, and little of their text is copied."""

import asyncio
from typing import Any

import pytest

from tests.world.claims import CLAIMS, Json, passes_over, ready, removed, word
from tests.world.harness import SIZE, node_claim, simulate
from tests.world.operator.common import logged
from tests.world.transcript import FAST

pytestmark = pytest.mark.matrix(quick=0)

TYPE = "node.kubernetes.io/instance-type"
MARK = "VERBATIM"
MINUTE = 60.0


def values(number: int) -> list[str]:
    return [f"{MARK}-{at}" for at in range(number)]


def requirement(key: str, wanted: list[str]) -> Json:
    return {"key": key, "operator": "In", "values": wanted}


def with_requirements(name: str, *requirements: Json) -> Json:
    return node_claim(name, requirements=list(requirements))


def with_annotations(name: str, wanted: Json, **metadata: str) -> Json:
    claim = with_requirements(name, wanted)
    claim["metadata"]["annotations"] = {"example.com/notes": f"{MARK}\x1b[2J\u202e " * 15_000, **metadata}
    return claim


ARM = requirement("kubernetes.io/arch", ["arm64"])
# At the limits of the CRD (1000 values of a requirement, 100 requirements) and of the API server (256 KiB of
# annotations), each with the message of its condition.
HUGE: dict[str, tuple[Json, str]] = {
    "values": (
        with_requirements(
            "values",
            requirement(TYPE, [SIZE]),
            *(requirement(f"example.com/k{at}", [str(value) for value in range(1000)]) for at in range(99)),
        ),
        "99001 values, at most 5000 are evaluated",
    ),
    "sizes": (
        with_requirements("sizes", requirement(TYPE, [f"Standard_NC{at}s_{MARK}" for at in range(1, 1001)])),
        "1000 combinations of size, capacity type and zone, at most 500 are tried",
    ),
    "zones": (
        with_requirements("zones", requirement(TYPE, [SIZE]), requirement("topology.kubernetes.io/zone", values(1000))),
        "is not a zone; use <location>-1, -2 or -3",
    ),
    "exclusions": (
        with_requirements(
            "exclusions",
            *(requirement(TYPE, [SIZE, *values(999)]) for _ in range(2)),
            requirement("karpenter.azure.com/sku-name", values(1000)),
        ),
        "",
    ),
    "annotations": (with_annotations("annotations", requirement("other", ["x"])), "no instance type is specified"),
}


@pytest.mark.parametrize("what", HUGE)
def test_a_huge_claim_is_rejected_in_few_words(what: str) -> None:
    """It has one reason in 256 bytes; its text is neither logged nor in an Event; a healthy claim becomes Ready."""

    async def story(sim: Any) -> None:
        huge, cause = HUGE[what]
        await sim.start_controller()
        await sim.apply(huge)
        with passes_over(what) as passes:
            await sim.apply(node_claim("gpu1"))
            await ready(sim, "gpu1")
            await asyncio.sleep(30 * MINUTE)
        assert len(passes) < 20
        status, reason = word(sim.claim(what), "Launched")
        assert (status, bool(reason)) == ("False", True)
        conditions = sim.claim(what)["status"]["conditions"]
        assert cause in next(one["message"] for one in conditions if one["type"] == "Launched")
        assert max(len(one["message"].encode()) for one in conditions) <= 256
        texts = [event["message"] for event in sim.store.list("events")]
        assert max(len(text.encode()) for text in texts) <= 1024
        assert sum(text.count(MARK) for text in texts) <= 20
        assert sim.condition("gpu1", "Ready") == "True"
        for name in (what, "gpu1"):
            await removed(sim, name)

    with logged("debug") as lines:
        simulate(story, azure=FAST)
    assert max(len(str(line)) for line in lines) < 3000
    assert sum(str(line).count(MARK) for line in lines) <= 60
    assert not [line for line in lines if line["level"] == "ERROR"]


def test_a_launched_claim_with_huge_annotations_is_served() -> None:
    """Its annotations are copied to its Node, which the API server accepts, and are not logged."""

    async def story(sim: Any) -> None:
        await sim.start_controller()
        await sim.apply(with_annotations("gpu1", requirement(TYPE, [SIZE])))
        await ready(sim, "gpu1")
        await removed(sim, "gpu1")
        assert sim.store.get(CLAIMS, "gpu1") is None

    with logged("debug") as lines:
        simulate(story, azure=FAST)
    assert MARK not in str(lines)
