"""Label and field selectors, and their errors."""

import pytest

from .server import Server
from .things import CLAIMS, LEASES, NODES, PODS, WIDGETS, claim, listed, node, pod, widget

pytestmark = pytest.mark.asyncio

ALL = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ("i=0", ["a"]),
        ("i==0", ["a"]),
        ("i!=0", ["b", "c"]),
        ("i", ["a", "b"]),
        ("!i", ["c"]),
        ("i in (0,7)", ["a"]),
        ("i notin (0)", ["b", "c"]),
        ("i>0", ["b"]),
        ("i<1", ["a"]),
        ("i,i!=0", ["b"]),
        ("i=0,i=1", []),
        ("example.com/x=y", ["c"]),
        ("i=", []),
    ],
)
async def test_label_selectors(server: Server, selector: str, chosen: list[str]) -> None:
    """Equality, sets, presence and ordering select; an object without the label is unequal to every value."""
    labels = {"a": {"i": "0"}, "b": {"i": "1"}, "c": {"example.com/x": "y"}}
    names = {(await node(server, labels=labels[key]))["metadata"]["name"]: key for key in ALL}
    assert [names[name] for name in await listed(server, NODES, labelSelector=selector)] == chosen


@pytest.mark.parametrize("selector", ["a in b", "a=b=c", "a>b", "!a=b", "a b", "/x=y", "a=b c"])
async def test_an_invalid_label_selector_is_refused(server: Server, selector: str) -> None:
    """A selector that cannot be parsed is 400."""
    await server.refused(400, "BadRequest", "GET", NODES, labelSelector=selector)


async def test_field_selector_of_names(server: Server) -> None:
    """metadata.name works for every kind, with = and !=."""
    first, second = await claim(server), await claim(server)
    names = [first["metadata"]["name"], second["metadata"]["name"]]
    assert await listed(server, CLAIMS, fieldSelector=f"metadata.name={names[0]}") == names[:1]
    assert await listed(server, CLAIMS, fieldSelector=f"metadata.name!={names[0]}") == names[1:]
    found = await server.get(CLAIMS, fieldSelector=f"metadata.name={names[1]}")
    assert [item["metadata"]["name"] for item in found["items"]] == names[1:]


async def test_field_selectors_of_pods(server: Server) -> None:
    """Pods can be selected by their Node and phase, as a drain does."""
    here = (await node(server))["metadata"]["name"]
    bound, elsewhere = await pod(server, on=here, ready=True), await pod(server)
    assert await listed(server, PODS, fieldSelector=f"spec.nodeName={here}") == [bound["metadata"]["name"]]
    assert await listed(server, PODS, fieldSelector="spec.nodeName=") == [elsewhere["metadata"]["name"]]
    query = f"spec.nodeName={here},status.phase!=Running"
    assert await listed(server, PODS, fieldSelector=query) == []
    everywhere = PODS.replace("/namespaces/default", "")
    assert await listed(server, everywhere, fieldSelector=f"spec.nodeName={here}") == [bound["metadata"]["name"]]


async def test_field_selector_of_cordoned_nodes(server: Server) -> None:
    """A boolean compares as text, an absent one as false."""
    cordoned, free = await node(server, spec={"unschedulable": True}), await node(server)
    assert await listed(server, NODES, fieldSelector="spec.unschedulable=true") == [cordoned["metadata"]["name"]]
    assert await listed(server, NODES, fieldSelector="spec.unschedulable=false") == [free["metadata"]["name"]]


async def test_selectable_fields_of_custom_resources(server: Server) -> None:
    """Custom resources have the selectableFields of their CRD, and no other."""
    blue, _ = await widget(server, spec={"size": 1, "colour": "blue"}), await widget(server)
    assert await listed(server, WIDGETS, fieldSelector="spec.colour=blue") == [blue["metadata"]["name"]]
    result = await server.refused(400, "BadRequest", "GET", WIDGETS, fieldSelector="spec.size=1")
    assert result["message"] == "field label not supported: spec.size"


async def test_an_unsupported_field_is_refused(server: Server) -> None:
    """Built-in kinds support a few fields each; a cluster-scoped kind has no namespace."""
    for collection, field in ((NODES, "spec.providerID"), (PODS, "spec.x"), (CLAIMS, "metadata.namespace")):
        result = await server.refused(400, "BadRequest", "GET", collection, fieldSelector=f"{field}=1")
        assert result["message"] == f"field label not supported: {field}"
    await server.refused(400, "BadRequest", "GET", LEASES, fieldSelector="spec.holderIdentity=x")
    result = await server.refused(400, "BadRequest", "GET", NODES, fieldSelector="metadata.name")
    assert result["message"] == "invalid selector: 'metadata.name'; can't understand 'metadata.name'"
