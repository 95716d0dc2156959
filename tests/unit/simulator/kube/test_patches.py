"""The three patch formats: documents, patches and results."""

import copy

import pytest
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


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": ["c", "d"]}, {"a": ["c", "d"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": "c"}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    ],
)
def test_merge_patches_of_the_rfc(target, patch, result) -> None:
    """The examples of RFC 7386."""
    assert merge(target, patch) == result


@pytest.mark.parametrize(
    ("target", "operations", "result"),
    [
        ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
        ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
        ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ({"a": 1}, [{"op": "replace", "path": "/a", "value": None}], {"a": None}),
        ({"a": {"x/y": 1, "m~n": 2}}, [{"op": "remove", "path": "/a/x~1y"}], {"a": {"m~n": 2}}),
        ({"a": {"x/y": 1, "m~n": 2}}, [{"op": "remove", "path": "/a/m~0n"}], {"a": {"x/y": 1}}),
        ({"a": 1}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": 1, "b": 1}),
        ({"a": {"b": 1}, "c": {}}, [{"op": "move", "from": "/a/b", "path": "/c/d"}], {"a": {}, "c": {"d": 1}}),
        ({"a": [1]}, [{"op": "test", "path": "/a", "value": [1]}, {"op": "remove", "path": "/a"}], {}),
        (
            {"a": {}},
            [{"op": "test", "path": "/a/b", "value": None}, {"op": "add", "path": "/a/b", "value": 1}],
            {"a": {"b": 1}},
        ),
    ],
)
def test_json_patches(target, operations, result) -> None:
    """Each operation of RFC 6902; an absent member passes a `test` for null, as in the API server's library."""
    before = copy.deepcopy(target)
    assert json_patch(target, operations) == result
    assert target == before


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "test", "path": "/a", "value": [2]}],
        [{"op": "test", "path": "/n", "value": True}],
        [{"op": "test", "path": "/a/0/b", "value": 1}],
        [{"op": "remove", "path": "/b"}],
        [{"op": "add", "path": "/a/2", "value": 1}],
        [{"op": "add", "path": "/a/01", "value": 1}],
        [{"op": "add", "path": "/x/y", "value": 1}],
        [{"op": "add", "path": "", "value": 1}],
        [{"path": "/a"}],
        [{"op": "spin", "path": "/a"}],
        [{"op": "test", "path": "/a"}],
        [7],
        [{"op": "remove", "path": "a"}],
    ],
)
def test_a_json_patch_that_does_not_apply_is_a_422(operations) -> None:
    """The message does not name the cause; clients get the status and the reason."""
    error = refused(lambda: json_patch({"a": [1], "n": 1}, operations))
    assert (error.status, error.reason) == (422, "Invalid")
    assert error.message == "the server rejected our request due to an error in our request"


def test_a_json_patch_is_a_list() -> None:
    """Any other document is a 400."""
    assert refused(lambda: json_patch({"a": 1}, {})).status == 400


def test_the_servers_library_is_laxer_than_the_rfc() -> None:
    """`replace` adds an absent member, and `add` without a value adds null."""
    assert json_patch({"a": 1}, [{"op": "replace", "path": "/b", "value": 2}]) == {"a": 1, "b": 2}
    assert json_patch({"a": 1}, [{"op": "add", "path": "/b"}]) == {"a": 1, "b": None}


@given(OBJECT, OBJECT)
def test_merging_twice_is_merging_once(target, patch) -> None:
    """A merge patch is idempotent and changes neither argument."""
    kept, given_patch = copy.deepcopy(target), copy.deepcopy(patch)
    once = merge(target, patch)
    assert merge(once, patch) == once
    assert (target, patch) == (kept, given_patch)


CONDITIONS = [{"type": "Ready", "status": "True", "reason": "r"}, {"type": "Disk", "status": "False"}]


def test_strategic_merge_merges_conditions_by_type() -> None:
    """The kubelet sends one condition; all others stay, and so do the fields that it did not send."""
    patch = {
        "status": {
            "$setElementOrder/conditions": [{"type": "Ready"}],
            "conditions": [{"type": "Ready", "status": "False"}],
        }
    }
    after = strategic({"status": {"conditions": CONDITIONS}}, patch)
    assert after["status"]["conditions"] == [{"type": "Ready", "status": "False", "reason": "r"}, CONDITIONS[1]]


def test_strategic_merge_adds_and_deletes_elements() -> None:
    """`$patch: delete` removes an element by its key; an element with a new key is appended."""
    patch = {"status": {"conditions": [{"type": "Disk", "$patch": "delete"}, {"type": "PID", "status": "False"}]}}
    after = strategic({"status": {"conditions": CONDITIONS}}, patch)
    assert [c["type"] for c in after["status"]["conditions"]] == ["Ready", "PID"]


def test_strategic_merge_treats_finalizers_as_a_set() -> None:
    """Adding a finalizer keeps the others; removing one names it."""
    meta = {"metadata": {"finalizers": ["a", "b"]}}
    assert strategic(meta, {"metadata": {"finalizers": ["b", "c"]}})["metadata"]["finalizers"] == ["a", "b", "c"]
    removed = strategic(meta, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}})
    assert removed["metadata"]["finalizers"] == ["b"]


def test_strategic_merge_merges_owners_by_uid() -> None:
    """The fields of one owner change, the other owner stays."""
    owners = {"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}]}}
    after = strategic(owners, {"metadata": {"ownerReferences": [{"uid": "2", "controller": True}]}})
    assert after["metadata"]["ownerReferences"] == [
        {"uid": "1", "name": "a"},
        {"uid": "2", "name": "b", "controller": True},
    ]


def test_strategic_merge_replaces_taints_and_tolerations_whole() -> None:
    """The API types declare both lists atomic, so the real kubectl always sends the whole list."""
    spec = {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}], "tolerations": [{"key": "t"}]}}
    patch = {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}], "tolerations": []}}
    assert strategic(spec, patch) == patch


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
