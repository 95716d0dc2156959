"""Pages of one revision, exact revisions, and a lagging server."""

import pytest

from provisioner.simulator.kube.reads import ListOptions, View
from provisioner.simulator.kube.watch_cache import selected

from .stores import Cluster, refused


def names(page):
    return [record.obj["metadata"]["name"] for record in page.records]


def cluster(count=5, **options):
    c = Cluster(widgets=False, **options)
    for i in range(count):
        c.node(f"n{i}")
    return c, View(c.store), c.store.collection("nodes")


def test_pages_have_one_revision() -> None:
    """A change between two pages is in neither; the last page has no continue token."""
    c, view, nodes = cluster()
    first = view.page(nodes, ListOptions(limit=2))
    c.store.delete("nodes", "n3")
    c.node("n9")
    second = view.page(nodes, ListOptions(limit=2, token=first.token))
    third = view.page(nodes, ListOptions(limit=2, token=second.token))
    assert [names(p) for p in (first, second, third)] == [["n0", "n1"], ["n2", "n3"], ["n4"]]
    assert {p.revision for p in (first, second, third)} == {first.revision}
    assert (first.remaining, second.remaining, third.remaining, third.token) == (3, 1, None, "")


def test_a_selected_list_has_no_remaining_item_count() -> None:
    """The real server does not count what a selector leaves out."""
    _, view, nodes = cluster()
    page = view.page(nodes, ListOptions(limit=1, chosen=lambda o: o["metadata"]["name"] in {"n1", "n4"}))
    assert (names(page), page.remaining) == (["n1"], None)
    assert names(view.page(nodes, ListOptions(chosen=lambda o: o["metadata"]["name"] == "n4", token=page.token))) == [
        "n4"
    ]


def test_a_continue_token_expires() -> None:
    """410 after its revision is compacted or outside of the window: the client lists from the start."""
    c, view, nodes = cluster()
    token = view.page(nodes, ListOptions(limit=2)).token
    c.node("x")
    c.store.compact()
    error = refused(lambda: view.page(nodes, ListOptions(token=token)))
    assert (error.status, error.reason) == (410, "Expired")
    c, view, nodes = cluster(window=3)
    token = view.page(nodes, ListOptions(limit=2)).token
    for i in range(4):
        c.node(f"y{i}")
    assert refused(lambda: view.page(nodes, ListOptions(token=token))).status == 410


def test_an_invalid_continue_token_is_rejected() -> None:
    """400, and no list."""
    _, view, nodes = cluster()
    for token in ("%%%", "bm90IGpzb24"):
        assert refused(lambda t=token: view.page(nodes, ListOptions(token=t))).status == 400  # type: ignore[misc]  # the default binds the value of this round


def test_a_cached_list_has_one_page() -> None:
    """resourceVersion=0 ignores the limit, as the watch cache does."""
    _, view, nodes = cluster()
    assert len(view.page(nodes, ListOptions(limit=2, revision="0")).records) == 5


def test_an_exact_revision_can_be_listed() -> None:
    """Earlier and later changes are not in it; outside of the window it is a 410."""
    c, view, nodes = cluster(2)
    then = c.store.revision
    c.store.patch("nodes", "n0", {"metadata": {"labels": {"a": "b"}}})
    c.store.delete("nodes", "n1")
    page = view.page(nodes, ListOptions(revision=str(then), exact=True))
    assert names(page) == ["n0", "n1"]
    assert "labels" not in page.records[0].obj["metadata"]
    c.store.compact()
    assert refused(lambda: view.page(nodes, ListOptions(revision=str(then), exact=True))).status == 410


def test_a_future_revision_times_out() -> None:
    """A version that this server has not reached: 504, with the cause that clients recognize."""
    _, view, nodes = cluster(1)
    error = refused(lambda: view.page(nodes, ListOptions(revision="999")))
    assert (error.status, error.details["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")
    assert refused(lambda: view.page(nodes, ListOptions(revision="x"))).status == 400


def test_a_lagging_server_serves_an_old_revision() -> None:
    """Lists and cached reads are old, plain GETs are not; with consistent lists only reads that allow it are old."""
    c, view, nodes = cluster(1)
    then = c.store.revision
    c.node("late")
    key = ("", "late")
    view.freeze(then)
    assert (names(view.page(nodes, ListOptions())), view.page(nodes, ListOptions()).revision) == (["n0"], then)
    assert (view.get(nodes, key, "0"), view.get(nodes, key, "") is not None) == (None, True)
    view.freeze(then, consistent_lists=True)
    assert names(view.page(nodes, ListOptions())) == ["late", "n0"]
    assert names(view.page(nodes, ListOptions(revision="0"))) == ["n0"]
    view.thaw()
    assert names(view.page(nodes, ListOptions(revision="0"))) == ["late", "n0"]


def test_one_kind_may_lag_behind_the_others() -> None:
    """Each kind has its own watch cache."""
    c, view, nodes = cluster(1)
    then = c.store.revision
    c.node("late")
    view.freeze(then, kinds=["pods"])
    assert names(view.page(nodes, ListOptions())) == ["late", "n0"]
    view.freeze(then, kinds=["pods", "nodes"])
    assert names(view.page(nodes, ListOptions())) == ["n0"]


def test_an_old_revision_can_be_served_after_compaction() -> None:
    """Expired watches and old revisions are separate faults, which a test may combine."""
    c, view, nodes = cluster(1)
    then = c.store.revision
    c.node("late")
    c.store.compact()
    view.freeze(then)
    assert names(view.page(nodes, ListOptions())) == ["n0"]


@pytest.mark.parametrize("window", [1, 2, 3])
def test_a_watch_resumes_within_the_window_only(window) -> None:
    """From the oldest event that was dropped, and no earlier."""
    c, _, nodes = cluster(5, window=window)
    newest = c.store.revision
    assert len(nodes.history.since(newest - window, newest)) == window
    error = refused(lambda: nodes.history.since(newest - window - 1, newest))
    assert (error.status, error.message) == (
        410,
        f"too old resource version: {newest - window - 1} ({newest - window})",
    )


def test_a_selector_turns_changes_into_added_and_deleted() -> None:
    """An object that begins to match is ADDED, one that ceases to match is DELETED."""
    c, _, nodes = cluster(0)
    begin = c.store.revision
    c.node("n")
    c.store.patch("nodes", "n", {"metadata": {"labels": {"gpu": "1"}}})
    c.store.patch("nodes", "n", {"metadata": {"labels": {"gpu": "1", "x": "y"}}})
    c.store.patch("nodes", "n", {"metadata": {"labels": {"gpu": None}}})
    c.store.delete("nodes", "n")
    events = nodes.history.since(begin, c.store.revision)
    seen = [kind for kind, _ in selected(events, lambda o: "gpu" in o["metadata"].get("labels", {}), "")]
    assert seen == ["ADDED", "MODIFIED", "DELETED"]
    assert [kind for kind, _ in selected(events, None, "")] == ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]
