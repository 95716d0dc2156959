"""Lists: order, pages, versions, and expired continue tokens."""

import base64
import json
from typing import Any

import pytest

from .server import Server
from .things import CLAIMS, NODES, WIDGETS, at, claim, listed, node, widget

pytestmark = pytest.mark.asyncio


async def page(server: Server, **query: Any) -> tuple[list[str], dict[str, Any]]:
    """Names and metadata of one page of the test's Nodes."""
    found = await server.get(NODES, labelSelector=f"case={server.case}", **query)
    return [item["metadata"]["name"] for item in found["items"]], found["metadata"]


async def test_a_list_is_sorted_by_name(server: Server) -> None:
    """A list is sorted by name and has its kind and a version of its own."""
    names = [server.name(), server.name(), server.name()]
    for name in (names[2], names[0], names[1]):
        await server.done("POST", NODES, {"metadata": {"name": name, "labels": {"case": server.case}}})
    found = await server.get(NODES, labelSelector=f"case={server.case}")
    assert [item["metadata"]["name"] for item in found["items"]] == names
    assert (found["kind"], found["apiVersion"]) == ("NodeList", "v1")
    assert int(found["metadata"]["resourceVersion"]) >= int(found["items"][1]["metadata"]["resourceVersion"])


async def test_items_of_built_in_kinds_have_no_kind(server: Server) -> None:
    """Items of custom resources have their kind, those of built-in kinds do not."""
    await node(server)
    await claim(server)
    (found,) = (await server.get(NODES, labelSelector=f"case={server.case}"))["items"]
    assert "kind" not in found
    assert "apiVersion" not in found
    (found,) = (await server.get(CLAIMS, labelSelector=f"case={server.case}"))["items"]
    assert (found["kind"], found["apiVersion"]) == ("NodeClaim", "karpenter.sh/v1")


async def test_an_empty_list_has_items(server: Server) -> None:
    """The items of an empty list are [], neither null nor absent."""
    for collection, kind in ((NODES, "NodeList"), (CLAIMS, "NodeClaimList")):
        found = await server.get(collection, labelSelector=f"case={server.case}")
        assert found["items"] == []
        assert found["kind"] == kind
        assert int(found["metadata"]["resourceVersion"]) > 0


async def test_all_pages_are_the_list(server: Server) -> None:
    """Each page but the last has a token and the full length."""
    names = [(await node(server))["metadata"]["name"] for _ in range(5)]
    found, list_meta = await page(server, limit=2)
    pages = [found]
    while token := list_meta.get("continue"):
        found, list_meta = await page(server, limit=2, **{"continue": token})
        pages.append(found)
    assert pages == [names[:2], names[2:4], names[4:]]


async def test_pages_have_one_version(server: Server) -> None:
    """Creates, deletes and changes after the first page are not in the others."""
    made = [await node(server) for _ in range(4)]
    names = [obj["metadata"]["name"] for obj in made]
    _, list_meta = await page(server, limit=2)
    await server.delete(at(NODES, made[3]))
    await node(server)
    rest, later = await page(server, limit=9, **{"continue": list_meta["continue"]})
    assert rest == names[2:]
    assert later["resourceVersion"] == list_meta["resourceVersion"]
    assert "continue" not in later


async def test_remaining_item_count(server: Server) -> None:
    """Without a selector the first page has the number of remaining items; with one it does not."""
    await widget(server)
    await widget(server)
    found = await server.get(WIDGETS, limit=1)
    assert found["metadata"]["remainingItemCount"] >= 1
    found = await server.get(WIDGETS, limit=1, labelSelector=f"case={server.case}")
    assert "remainingItemCount" not in found["metadata"]


async def test_a_token_excludes_a_version(server: Server) -> None:
    """A continue token with a resourceVersion is 400; so is an invalid token."""
    await node(server)
    await node(server)
    _, list_meta = await page(server, limit=1)
    query = {"continue": list_meta["continue"], "resourceVersion": "5"}
    result = await server.refused(400, "BadRequest", "GET", NODES, **query)
    assert result["message"] == "specifying resource version is not allowed when using continue"
    result = await server.refused(400, "BadRequest", "GET", NODES, **{"continue": "abc"})
    assert "continue key is not valid" in result["message"]


async def test_an_expired_token_is_410(server: Server) -> None:
    """After a compaction an older token is Expired, and a new list succeeds."""
    await widget(server)
    await widget(server)
    found = await server.get(WIDGETS, limit=1, labelSelector=f"case={server.case}")
    # Servers from 1.34 on serve pages from their watch cache; only a token from before it is sure to expire.
    raw = json.loads(base64.urlsafe_b64decode(found["metadata"]["continue"] + "=="))
    token = base64.urlsafe_b64encode(json.dumps({**raw, "rv": 2}).encode()).decode().rstrip("=")
    await server.compact()
    result = await server.refused(410, "Expired", "GET", WIDGETS, limit=1, **{"continue": token})
    assert result["message"].startswith(
        "The provided continue parameter is too old to display a consistent list result"
    )
    assert len(await listed(server, WIDGETS)) == 2


async def test_a_minimum_version(server: Server) -> None:
    """A resourceVersion without a match means this version or a newer one."""
    first = await node(server)
    second = await node(server)
    for query in ({}, {"resourceVersionMatch": "NotOlderThan"}):
        found, _ = await page(server, resourceVersion=second["metadata"]["resourceVersion"], **query)
        assert found == [first["metadata"]["name"], second["metadata"]["name"]]


async def test_an_exact_version(server: Server) -> None:
    """An exact version is served until it is compacted, then it is 410; version 0 and no version are refused."""
    first = await node(server)
    version = first["metadata"]["resourceVersion"]
    await node(server)
    found, list_meta = await page(server, resourceVersion=version, resourceVersionMatch="Exact")
    assert (found, list_meta["resourceVersion"]) == ([first["metadata"]["name"]], version)
    await server.compact()
    result = await server.refused(410, "Expired", "GET", WIDGETS, resourceVersion="2", resourceVersionMatch="Exact")
    assert result["message"].startswith("The resourceVersion for the provided list is too old")
    for query in ({}, {"resourceVersion": "0"}):
        result = await server.refused(422, "Invalid", "GET", NODES, resourceVersionMatch="Exact", **query)
        assert result["details"]["causes"][0]["field"] == "resourceVersionMatch"
        assert result["details"]["kind"] == "ListOptions"


async def test_a_future_version_times_out(server: Server) -> None:
    """A version of the future is 504 Timeout with its cause and Retry-After, for list and get."""
    made = await node(server)
    for path in (NODES, at(NODES, made)):
        result = await server.refused(504, "Timeout", "GET", path, resourceVersion="99999999")
        assert result["details"]["causes"] == [
            {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        ]
        assert result["details"]["retryAfterSeconds"] == 1


async def test_an_invalid_version_or_limit_is_refused(server: Server) -> None:
    """A version or limit that is no number is 400 with the parser's message."""
    result = await server.refused(400, "BadRequest", "GET", NODES, resourceVersion="x")
    assert 'parsing "x": invalid syntax' in result["message"]
    result = await server.refused(400, "BadRequest", "GET", NODES, limit="x")
    assert 'parsing "x": invalid syntax' in result["message"]


async def test_version_zero_ignores_the_limit(server: Server) -> None:
    """A list of version 0 comes complete from the cache and can lack our last write."""
    made = [(await node(server))["metadata"]["name"] for _ in range(3)]
    found, list_meta = await page(server, resourceVersion="0", limit=1)
    while found != made:
        # The response comes from the cache, which can be behind for a moment.
        found, list_meta = await page(server, resourceVersion="0", limit=1)
    assert "continue" not in list_meta
