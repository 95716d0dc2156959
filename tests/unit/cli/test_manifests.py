"""Manifests of a whole cluster, as `kubectl get -o json` writes them."""

import io
import json

import pytest

from provisioner.cli.commands import manifests
from provisioner.cli.commands.manifests import documents
from provisioner.cli.commands.refusal import Refused

PODS = 1000
NOTE = "x" * 2_000


def cluster() -> str:
    """2 MB."""
    items = [{"kind": "Pod", "metadata": {"name": f"p{n}", "annotations": {"note": NOTE}}} for n in range(PODS)]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def test_json_may_be_longer_than_yaml() -> None:
    """Each object of the list is a document."""
    found = documents(["-"], io.StringIO(cluster()))
    assert [one.body["metadata"]["name"] for one in found] == [f"p{n}" for n in range(PODS)]
    assert found[-1].source == f"standard input, item {PODS}"


def test_long_json_that_ends_early_is_an_error() -> None:
    """The output of kubectl was cut off."""
    (found,) = documents(["-"], io.StringIO(cluster()[:-10]))
    assert (found.source, found.body, found.error) == ("standard input", None, "Input data was truncated")


def test_several_documents_of_json_are_read() -> None:
    found = documents(["-"], io.StringIO('{"kind": "A"}\n---\n{"kind": "B"}\n'))
    assert [one.body["kind"] for one in found] == ["A", "B"]


def test_json_has_a_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is not read."""
    monkeypatch.setattr(manifests, "JSON_CHARACTERS_MAX", 2**20 + 10)
    with pytest.raises(Refused, match="more than 1048586 characters"):
        documents(["-"], io.StringIO(cluster()))
