"""Lists: their order, their pages, their versions, and when a page is too old to go on from."""

import base64
import json
from typing import Any

import pytest

from .server import Server
from .things import CLAIMS, NODES, WIDGETS, at, claim, listed, node, widget

pytestmark = pytest.mark.asyncio


async def page(server: Server, **query: Any) -> tuple[list[str], dict[str, Any]]:
    """Names and metadata of one page of the case's Nodes."""
    found = await server.get(NODES, labelSelector=f"case={server.case}", **query)
    return [item["metadata"]["name"] for item in found["items"]], found["metadata"]


async def test_a_list_is_in_order_of_names_and_says_its_kind(server: Server) -> None:
    """Whatever the order of creation; the list has a version of its own."""
    names = [server.name(), server.name(), server.name()]
    for name in (names[2], names[0], names[1]):
        await server.done("POST", NODES, {"metadata": {"name": name, "labels": {"case": server.case}}})
    found = await server.get(NODES, labelSelector=f"case={server.case}")
    assert [item["metadata"]["name"] for item in found["items"]] == names
    assert (found["kind"], found["apiVersion"]) == ("NodeList", "v1")
    assert int(found["metadata"]["resourceVersion"]) >= int(found["items"][1]["metadata"]["resourceVersion"])


async def test_items_of_built_in_kinds_do_not_repeat_their_kind(server: Server) -> None:
    """Those of custom resources do."""
    await node(server)
    await claim(server)
    (found,) = (await server.get(NODES, labelSelector=f"case={server.case}"))["items"]
    assert "kind" not in found
    assert "apiVersion" not in found
    (found,) = (await server.get(CLAIMS, labelSelector=f"case={server.case}"))["items"]
    assert (found["kind"], found["apiVersion"]) == ("NodeClaim", "karpenter.sh/v1")


async def test_an_empty_list_has_items(server: Server) -> None:
    """`items` is [], not null and not absent: absence of the field would be no statement."""
    for collection, kind in ((NODES, "NodeList"), (CLAIMS, "NodeClaimList")):
        found = await server.get(collection, labelSelector=f"case={server.case}")
        assert found["items"] == []
        assert found["kind"] == kind
        assert int(found["metadata"]["resourceVersion"]) > 0


async def test_pages_together_are_the_list(server: Server) -> None:
    """Each page but the last has a token; none but the last is short."""
    names = [(await node(server))["metadata"]["name"] for _ in range(5)]
    found, told = await page(server, limit=2)
    pages = [found]
    while token := told.get("continue"):
        found, told = await page(server, limit=2, **{"continue": token})
        pages.append(found)
    assert pages == [names[:2], names[2:4], names[4:]]


async def test_pages_are_of_one_moment(server: Server) -> None:
    """What is created, deleted and changed after the first page does not show in the others."""
    made = [await node(server) for _ in range(4)]
    names = [obj["metadata"]["name"] for obj in made]
    _, told = await page(server, limit=2)
    await server.delete(at(NODES, made[3]))
    await node(server)
    rest, later = await page(server, limit=9, **{"continue": told["continue"]})
    assert rest == names[2:]
    assert later["resourceVersion"] == told["resourceVersion"]
    assert "continue" not in later


async def test_what_remains_is_counted_where_it_is_known(server: Server) -> None:
    """Without a selector the first page says how many follow; with one it does not."""
    await widget(server)
    await widget(server)
    found = await server.get(WIDGETS, limit=1)
    assert found["metadata"]["remainingItemCount"] >= 1
    found = await server.get(WIDGETS, limit=1, labelSelector=f"case={server.case}")
    assert "remainingItemCount" not in found["metadata"]


async def test_a_token_goes_without_a_version(server: Server) -> None:
    """A continued list that also names a resourceVersion is 400; so is a token that nobody gave out."""
    await node(server)
    await node(server)
    _, told = await page(server, limit=1)
    query = {"continue": told["continue"], "resourceVersion": "5"}
    said = await server.refused(400, "BadRequest", "GET", NODES, **query)
    assert said["message"] == "specifying resource version is not allowed when using continue"
    said = await server.refused(400, "BadRequest", "GET", NODES, **{"continue": "abc"})
    assert "continue key is not valid" in said["message"]


async def test_a_page_of_a_past_that_is_gone_is_410(server: Server) -> None:
    """After a compaction a token from before is Expired, and the whole list is to be had anew."""
    await widget(server)
    await widget(server)
    found = await server.get(WIDGETS, limit=1, labelSelector=f"case={server.case}")
    # Servers from 1.34 on keep what their watch window covers; only a token from before that is sure to expire.
    raw = json.loads(base64.urlsafe_b64decode(found["metadata"]["continue"] + "=="))
    token = base64.urlsafe_b64encode(json.dumps({**raw, "rv": 2}).encode()).decode().rstrip("=")
    await server.compact()
    said = await server.refused(410, "Expired", "GET", WIDGETS, limit=1, **{"continue": token})
    assert said["message"].startswith("The provided continue parameter is too old to display a consistent list result")
    assert len(await listed(server, WIDGETS)) == 2


async def test_a_list_at_least_as_new_as_asked(server: Server) -> None:
    """A version without more words means: this, or newer."""
    first = await node(server)
    second = await node(server)
    for query in ({}, {"resourceVersionMatch": "NotOlderThan"}):
        found, _ = await page(server, resourceVersion=second["metadata"]["resourceVersion"], **query)
        assert found == [first["metadata"]["name"], second["metadata"]["name"]]


async def test_a_list_of_exactly_then(server: Server) -> None:
    """The past, as long as it is kept; 410 once it is not; never of version 0 or of none."""
    first = await node(server)
    version = first["metadata"]["resourceVersion"]
    await node(server)
    found, told = await page(server, resourceVersion=version, resourceVersionMatch="Exact")
    assert (found, told["resourceVersion"]) == ([first["metadata"]["name"]], version)
    await server.compact()
    said = await server.refused(410, "Expired", "GET", WIDGETS, resourceVersion="2", resourceVersionMatch="Exact")
    assert said["message"].startswith("The resourceVersion for the provided list is too old")
    for query in ({}, {"resourceVersion": "0"}):
        said = await server.refused(422, "Invalid", "GET", NODES, resourceVersionMatch="Exact", **query)
        assert said["details"]["causes"][0]["field"] == "resourceVersionMatch"
        assert said["details"]["kind"] == "ListOptions"


async def test_a_version_of_the_future_times_out(server: Server) -> None:
    """The server cannot know it yet: 504 Timeout, with the cause and a time to come back, for list and get."""
    made = await node(server)
    for path in (NODES, at(NODES, made)):
        said = await server.refused(504, "Timeout", "GET", path, resourceVersion="99999999")
        assert said["details"]["causes"] == [
            {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        ]
        assert said["details"]["retryAfterSeconds"] == 1


async def test_a_version_or_limit_that_is_no_number_is_refused(server: Server) -> None:
    """400, with the words of the number parser."""
    said = await server.refused(400, "BadRequest", "GET", NODES, resourceVersion="x")
    assert 'parsing "x": invalid syntax' in said["message"]
    said = await server.refused(400, "BadRequest", "GET", NODES, limit="x")
    assert 'parsing "x": invalid syntax' in said["message"]


async def test_version_zero_is_any_version_and_knows_no_limit(server: Server) -> None:
    """The cache answers whole: what is in it was once true, and a list after our own write may lack it."""
    made = [(await node(server))["metadata"]["name"] for _ in range(3)]
    found, told = await page(server, resourceVersion="0", limit=1)
    while found != made:
        # Only the cache is asked, which may be a moment behind.
        found, told = await page(server, resourceVersion="0", limit=1)
    assert "continue" not in told
