"""Server-side apply: what a manager owns, conflicts, and the removal of fields that it no longer sends."""

from typing import Any

import pytest

from provisioner.simulator.kube.apply import applied
from provisioner.simulator.kube.errors import ApiError

Json = dict[str, Any]
NOW, LATER = "2026-03-01T12:00:00Z", "2026-03-01T12:05:00Z"


def sent(**metadata: Any) -> Json:
    spec = metadata.pop("spec", {})
    return {
        "apiVersion": "v1",
        "kind": "Thing",
        "metadata": {"name": "a", **metadata},
        **({"spec": spec} if spec else {}),
    }


def apply(old: Json | None, body: Json, manager: str = "ann", *, force: bool = False, now: str = NOW) -> Json:
    return applied(old, body, manager=manager, force=force, now=now)


def test_an_absent_object_is_what_the_manager_sent() -> None:
    made = apply(None, sent(labels={"a": "1"}))
    [entry] = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("ann", "Apply")
    assert entry["fieldsV1"] == {"f:metadata": {"f:labels": {"f:a": {}}}}


def test_the_same_apply_changes_nothing() -> None:
    """Not even the time of the entry."""
    made = apply(None, sent(labels={"a": "1"}))
    assert apply(made, sent(labels={"a": "1"}), now=LATER) == made


def test_a_field_that_is_no_longer_sent_is_removed() -> None:
    """Unless another manager applied it too; fields of other writers stay."""
    made = apply(None, sent(labels={"mine": "1", "ours": "1"}))
    made = apply(made, sent(labels={"ours": "1"}), "ben")
    made["metadata"]["labels"]["other"] = "written without apply"
    made = apply(made, sent(spec={"size": 2}))
    assert made["metadata"]["labels"] == {"ours": "1", "other": "written without apply"}
    assert made["spec"] == {"size": 2}


def test_another_value_for_a_field_of_another_manager_is_a_conflict() -> None:
    """409 with the manager and the field; with `force` the field changes its manager."""
    made = apply(None, sent(labels={"team": "red"}))
    with pytest.raises(ApiError) as refused:
        apply(made, sent(labels={"team": "blue"}), "ben")
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    assert refused.value.message == 'Apply failed with 1 conflict: conflict with "ann": .metadata.labels.team'
    forced = apply(made, sent(labels={"team": "blue"}), "ben", force=True)
    assert forced["metadata"]["labels"] == {"team": "blue"}
    assert [entry["manager"] for entry in forced["metadata"]["managedFields"]] == ["ben"]


def test_finalizers_of_others_are_kept() -> None:
    made = apply({**sent(), "metadata": {"name": "a", "finalizers": ["x/y"]}}, sent(finalizers=["a/b"]))
    assert made["metadata"]["finalizers"] == ["x/y", "a/b"]
