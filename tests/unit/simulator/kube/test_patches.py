"""Patches, beside those of tests/cluster/conformance."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from provisioner.simulator.kube.patches import json_patch, merge, strategic

from .stores import refused

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


def test_a_json_patch_is_a_list() -> None:
    """Any other document is a 400."""
    assert refused(lambda: json_patch({"a": 1}, {})).status == 400


@given(OBJECT, OBJECT)
def test_merging_twice_is_merging_once(target, patch) -> None:
    """A merge patch is idempotent and changes neither argument."""
    kept, given_patch = copy.deepcopy(target), copy.deepcopy(patch)
    once = merge(target, patch)
    assert merge(once, patch) == once
    assert (target, patch) == (kept, given_patch)


CONDITIONS = [{"type": "Ready", "status": "True", "reason": "r"}, {"type": "Disk", "status": "False"}]


def test_strategic_merge_merges_owners_by_uid() -> None:
    """The fields of one owner change, the other owner stays."""
    owners = {"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}]}}
    after = strategic(owners, {"metadata": {"ownerReferences": [{"uid": "2", "controller": True}]}})
    assert after["metadata"]["ownerReferences"] == [
        {"uid": "1", "name": "a"},
        {"uid": "2", "name": "b", "controller": True},
    ]


def test_strategic_merge_replaces_and_retains_on_demand() -> None:
    """`$patch: replace` drops the old value, `$retainKeys` keeps the fields that it names."""
    assert strategic({"spec": {"a": 1}}, {"spec": {"$patch": "replace", "b": 2}}) == {"spec": {"b": 2}}
    assert strategic({"s": {"a": 1, "b": 2}}, {"s": {"$retainKeys": ["b", "c"], "c": 3}}) == {"s": {"b": 2, "c": 3}}
    replaced = strategic({"status": {"conditions": CONDITIONS}}, {"status": {"conditions": [{"$patch": "replace"}]}})
    assert replaced["status"]["conditions"] == []


def test_an_element_without_its_key_is_a_500() -> None:
    """The element to merge with is unknown."""
    error = refused(lambda: strategic({"status": {"conditions": []}}, {"status": {"conditions": [{"status": "True"}]}}))
    assert (error.status, "merge key: type" in error.message) == (500, True)
