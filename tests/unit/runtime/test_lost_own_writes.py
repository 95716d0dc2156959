"""The watch passes an own write without delivering it: the cache is listed again instead of showing it for ever."""

import pytest

from provisioner.runtime.decoding import ObjectList

from .lagging import BACKWARD, node, scene, shown

pytestmark = pytest.mark.asyncio

# What happens after `list a1 @1`, and what the cache shows in the end. `has` is what a list would show then: none is
# forced.
ROWS: dict[str, tuple[list[str], str]] = {
    "created, and lost by a restore before the watch delivered it": (
        ["answer b9", "list a1 @5", "MODIFIED a6", "bookmark @12", "has a6 @12"],
        "a6",
    ),
    "changed, and the change was lost": (["answer a9", "list a1 @5", "ADDED c12", "has a1 c12 @12"], "a1 c12"),
    "created, and both its events lost": (["answer b5", "ADDED c7", "has a1 c7 @7"], "a1 c7"),
    "changed, and lost before the answer came": (["ADDED b6", "answer a5", "MODIFIED b7", "has b7 @7"], "b7"),
    "as usual": (["answer a5", "MODIFIED a3", "MODIFIED a5", "ADDED c6"], "a5 c6"),
    "restored in time": (["MODIFIED a5", "answer b6", *BACKWARD], "a3"),
}


@pytest.mark.parametrize(("played", "left"), ROWS.values(), ids=ROWS)
async def test_what_the_cache_shows_after_a_loss(played: list[str], left: str) -> None:
    async with scene() as it:
        await it.play("list a1 @1")
        for what in played:
            if what.startswith("has "):
                *items, version = what.split()[1:]
                it.server.lists.put_nowait(ObjectList(tuple(map(node, items)), version[1:]))
            await it.play(what if not what.startswith("has ") else "bookmark " + what.split()[-1])
        assert " ".join(sorted(map(shown, it.cache.items()))) == left
