"""When the keys of new NodeClaims are added to the work queue."""

import pytest

from controllers.reconcile.launch_gate import LaunchGate


def test_keys_wait_while_further_nodeclaims_are_written() -> None:
    """Each is added once, in order, at the end; a later one is added at once."""
    added: list[str] = []
    gate = LaunchGate(added.append)
    with gate.held():
        for key in ("b", "a", "b"):
            gate.new_claim(key)
        assert added == []
    assert added == ["b", "a"]
    gate.new_claim("c")
    assert added == ["b", "a", "c"]


def test_an_error_loses_no_key() -> None:
    """NodeClaims that were written before the error are reconciled."""
    added: list[str] = []
    gate = LaunchGate(added.append)

    def fail() -> None:
        with gate.held():
            gate.new_claim("a")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert added == ["a"]
