"""JSONPath of readiness rules: what each part selects, and which paths are refused."""

import re
from typing import Any

import pytest

from provisioner.api.jsonpath import PATH_CHARACTERS, PATTERN, JsonPath

CACHES: dict[str, Any] = {
    "metadata": {"name": "n", "labels": {"example.com/zone": "1"}},
    "status": {
        "nodeName": "n",
        "ready": True,
        "count": 2,
        "share": 0.5,
        "none": None,
        "caches": {
            "vllm": {
                "sha256:1": {"compatibleGPUs": [0, 1], "pvcStatus": {"ml": {"conditions": [{"type": "Extracted"}]}}},
                "sha256:2": {"compatibleGPUs": [], "pvcStatus": {"ml": {"conditions": [{"type": "Pending"}]}}},
            }
        },
        "conditions": [
            {"type": "Ready", "status": "True", "at": {"n": 1}},
            {"type": "Extracted", "status": "False"},
            "text",
        ],
    },
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".status.nodeName", ("n",)),
        ("{.status.nodeName}", ("n",)),
        ("{$.status.nodeName}", ("n",)),
        (".status['nodeName']", ("n",)),
        ('.status["nodeName"]', ("n",)),
        ("['status'].nodeName", ("n",)),
        (r".metadata.labels.example\.com/zone", ("1",)),
        (".metadata.labels['example.com/zone']", ("1",)),
        (".status.ready", ("true",)),
        (".status.count", ("2",)),
        (".status.share", ("0.5",)),
        (".status.none", ()),
        (".status.absent", ()),
        (".status.nodeName.deeper", ()),
        (".status.caches.vllm.*.compatibleGPUs[*]", ("0", "1")),
        (".status.caches.vllm.*.compatibleGPUs", ("[0,1]", "[]")),
        (".status.caches.vllm[*].pvcStatus.ml.conditions[0].type", ("Extracted", "Pending")),
        ("{.status.caches.vllm['sha256:1'].pvcStatus.ml.conditions[*].type}", ("Extracted",)),
        ('.status.conditions[?(@.type=="Ready")].status', ("True",)),
        (".status.conditions[?( @.type == 'Ready' )].status", ("True",)),
        ('.status.conditions[?(@.type!="Ready")].status', ("False",)),
        (".status.conditions[?(@.at.n==1)].type", ("Ready",)),
        ('.status.conditions[?(@.status=="False")].type', ("Extracted",)),
        (".status.conditions[-1]", ("text",)),
        (".status.conditions[7]", ()),
        (".status.caches[0]", ()),
        (".status.nodeName[*]", ()),
    ],
)
def test_a_path_selects_values(path: str, values: tuple[str, ...]) -> None:
    """Each part selects what kubectl selects; what is not there is no value and no error."""
    assert re.search(PATTERN, path)
    assert JsonPath(path).values(CACHES) == values


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "does not start with"),
        ("{}", "does not start with"),
        ("{.kind}", "does not start with .metadata, .spec, .status or .data"),
        ("[0].a", "does not start with"),
        (".*", "does not start with"),
        ("status.a", "'status.a' at character 1"),
        (".status..a", "'..a' at character 8"),
        (".status.a[1:2]", "'[1:2]' at character 10"),
        (".status.a[?(@.b)]", "'[?(@.b)]' at character 10"),
        (".status.a[?(@.b=~'c')]", "at character 10"),
        (".status.a[", "at character 10"),
        (".status.a['b", "at character 10"),
        ("{.status.a", "'{.status.a' at character 1"),
        (".status.a}", "'}' at character 10"),
        (".status.a b", "at character 10"),
        ("." + "status" * PATH_CHARACTERS, "more than 512 characters"),
    ],
)
def test_an_invalid_path_is_refused(path: str, why: str) -> None:
    """The error names the part that this subset does not have."""
    with pytest.raises(ValueError, match=r".") as refused:
        JsonPath(path)
    assert why in str(refused.value)
    assert re.search(PATTERN, path) is None or len(path) > PATH_CHARACTERS


def test_no_path_runs_long_on_odd_text() -> None:
    """Matching is linear: names end at the first character that cannot be part of one."""
    for odd in ("\\" * 500, ".a" * 250, "[?(@" + ".a" * 200, "['" + "a" * 400):
        with pytest.raises(ValueError, match=r"."):
            JsonPath(odd)
