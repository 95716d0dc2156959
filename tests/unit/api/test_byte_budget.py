"""The budget of bytes of a cache: what it keeps of whom, and what is due to be read again."""

import msgspec

from provisioner.api.byte_budget import ByteBudget, Refusals
from provisioner.api.meta import ObjectMeta


class Kept(msgspec.Struct, frozen=True, weakref=True):
    """An object of a cache."""

    metadata: ObjectMeta = ObjectMeta()


class Cache:
    """Keeps objects of 100 bytes as a digest does."""

    def __init__(self, *, namespaces: int = 4) -> None:
        self.budget = ByteBudget(small=10, each=500, total=1000, reserved=800, namespaces=lambda: namespaces)
        self.refusals = Refusals(self.budget)
        self.objects: dict[tuple[str, str], Kept] = {}

    def add(self, namespace: str, name: str, size: int = 100) -> bool:
        """Whether the object is kept."""
        found = Kept(ObjectMeta(namespace=namespace, name=name))
        if kept := not self.budget.refused(size, namespace):
            self.budget.hold(found, size, namespace)
        else:
            self.refusals.remember(found, size)
        self.objects[namespace, name] = found
        return kept

    def fill(self, namespace: str, count: int = 30) -> int:
        """How many of so many objects are kept."""
        return sum(self.add(namespace, f"{number:02}") for number in range(count))

    def due(self, most: int = 100) -> list[tuple[str, str]]:
        return [(one.namespace, one.name) for one in self.refusals.due(most)]


def test_every_namespace_has_its_share_whatever_others_hold() -> None:
    """One fills what all have in common; each other one has a fourth of the rest, and the sum has a bound."""
    cache = Cache()
    assert [cache.fill(name) for name in ("evil", "b", "c", "d", "e")] == [10, 2, 2, 2, 2]
    assert cache.budget.used == 1800
    assert cache.fill("f") == 0, "there are more than four namespaces, and no byte is left"
    assert not cache.budget.refused(10, "f"), "small ones are always kept"


def test_the_share_is_small_while_the_number_of_namespaces_is_not_known() -> None:
    """The first ones cannot take what those that are listed later have."""
    cache = Cache(namespaces=0)
    assert [cache.fill(name) for name in ("evil", "b")] == [10, 0]


def test_what_was_refused_is_due_once_there_is_room() -> None:
    """Not before, not once it is gone from the cache, and never what is too large by itself."""
    cache = Cache()
    cache.fill("evil")
    cache.fill("b", 3)
    cache.add("b", "huge", 501)
    assert cache.due() == []
    del cache.objects["evil", "29"]
    for number in range(3):
        del cache.objects["evil", f"{number:02}"]
    assert len(cache.refusals) == 20
    assert cache.due()[0] == ("b", "02"), "the namespace that holds less comes first"
    assert ("evil", "29") not in cache.due()
    assert ("b", "huge") not in cache.due()


def test_what_could_not_be_read_again_comes_last() -> None:
    """A few are due at a time, and those that stay refused do not keep others from their turn."""
    cache = Cache()
    cache.fill("evil", 14)
    del cache.objects["evil", "00"]
    assert [cache.due(2), cache.due(2), cache.due(1)] == [
        [("evil", "10"), ("evil", "11")],
        [("evil", "12"), ("evil", "13")],
        [("evil", "10")],
    ]
