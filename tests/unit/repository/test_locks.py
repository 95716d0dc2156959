"""The lock files: what each contains, and that all of them pin the same versions."""

from collections.abc import Iterable
from importlib.metadata import requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from provisioner.version import DISTRIBUTION

from .locks import BUILD, DEV, IMAGE, ROOT, RUN, pins


def closure(names: Iterable[str]) -> set[str]:
    """The distributions that these require on this platform, directly or indirectly, themselves included."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = canonicalize_name(todo.pop())
        if name in found:
            continue
        found.add(name)
        required = [Requirement(text) for text in requires(name) or ()]
        todo += [each.name for each in required if each.marker is None or each.marker.evaluate({"extra": ""})]
    return found


@pytest.mark.parametrize("name", [RUN, DEV, IMAGE, BUILD])
def test_a_lock_pins_exact_versions_with_hashes(name: str) -> None:
    """As `pip install --require-hashes` and `pip-audit --disable-pip` need it; no address of an index."""
    found = pins(name)
    assert len(found) == len({(pin.name, pin.marker) for pin in found}) > 5
    assert "://" not in (ROOT / name).read_text(encoding="utf-8")


def test_every_lock_is_checked() -> None:
    assert {path.name for path in ROOT.glob("*.lock")} == {RUN, DEV, IMAGE, BUILD}


def test_the_lock_of_the_tests_is_layered_on_the_runtime_lock() -> None:
    """No distribution is in both; both are installed together."""
    assert {pin.name for pin in pins(DEV)} & {pin.name for pin in pins(RUN)} == set()


@pytest.mark.parametrize("name", [IMAGE, BUILD])
def test_the_image_is_built_from_the_versions_that_are_tested(name: str) -> None:
    """Hash by hash."""
    tested = {pin.name: pin for pin in pins(RUN)}
    for pin in pins(name):
        assert pin == tested[pin.name]


def test_the_image_contains_the_requirements_of_the_program_and_nothing_else() -> None:
    """The extra `try` is not part of the image."""
    required = closure([DISTRIBUTION]) - {DISTRIBUTION}
    assert {pin.name for pin in pins(IMAGE)} == required
    assert not required & {"cel-python", "hatchling", "jsonschema-rs", "rich"}
