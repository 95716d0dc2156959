"""Concurrent writes between a read and a patch: nothing is overwritten, and the patch succeeds within seconds."""

import pytest

from tests.world.claims import CLAIMS, ready, removed
from tests.world.harness import Sim, node_claim, simulate


@pytest.mark.parametrize("seed", range(4))
def test_a_node_with_concurrent_writes_is_registered_within_seconds(seed) -> None:
    """Six times another finalizer is added just before our patch, whose test of the list then fails. The cache has the
    new list at once or a moment later, and each time the next patch keeps the others (rule 9).
    """
    strangers = [f"example.com/{number}" for number in range(6)]
    left = list(strangers)

    async def story(sim) -> None:
        await sim.start_controller()

        async def between(call, _request) -> None:
            if left and call.who.startswith("ctl") and call.verb == "PATCH" and call.target.kind == "nodes":
                meta = sim.store.get("nodes", call.target.name)["metadata"]
                sim.store.patch(
                    "nodes", meta["name"], {"metadata": {"finalizers": [*meta.get("finalizers", []), left.pop(0)]}}
                )

        sim.world.before.append(between)
        await sim.apply(node_claim("gpu1"))
        await ready(sim, "gpu1")
        patches = [call for call in sim.audit_log.calls(verb="PATCH", kind="nodes") if call.who.startswith("ctl")]
        refused = [call.at for call in patches if call.status == 422]
        registered = next(call.at for call in patches if call.status == 200)
        assert (left, len(refused)) == ([], 6)
        assert registered - refused[0] < 30
        [node] = sim.nodes_of("gpu1")
        assert [f for f in node["metadata"]["finalizers"] if f in strangers] == strangers

    simulate(story, seed=seed)


def test_a_lost_event_of_our_own_write_costs_nothing() -> None:
    """A watch that drops the event of the controller's write: nothing is read for it, repeated or delayed."""

    async def story(sim: Sim) -> None:
        await sim.start_controller(elect=False)
        await sim.apply(node_claim("gpu1"))
        lost = 0

        def lose(event: str, kind: str, obj: dict, _before: dict | None) -> None:
            nonlocal lost
            if kind == CLAIMS and event == "MODIFIED" and lost == 0:
                lost += 1
                sim.api.lose_event(int(obj["metadata"]["resourceVersion"]))

        sim.store.subscribe(lose)
        await ready(sim, "gpu1", within_seconds=300)
        assert lost == 1
        about_claims = [call for call in sim.audit_log.calls(kind="nodeclaims") if call.at > 1.0]
        assert not [call for call in about_claims if call.verb in ("LIST", "GET") or call.status == 409]
        await removed(sim, "gpu1")
        await sim.settled()

    simulate(story)
