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


def test_pages_are_of_one_moment() -> None:
    """What happens between two pages is in neither; the last page reports it by bearing no token."""
    c, view, nodes = cluster()
    first = view.page(nodes, ListOptions(limit=2))
    c.store.delete("nodes", "n3")
    c.node("n9")
    second = view.page(nodes, ListOptions(limit=2, token=first.token))
    third = view.page(nodes, ListOptions(limit=2, token=second.token))
    assert [names(p) for p in (first, second, third)] == [["n0", "n1"], ["n2", "n3"], ["n4"]]
    assert {p.revision for p in (first, second, third)} == {first.revision}
    assert (first.remaining, second.remaining, third.remaining, third.token) == (3, 1, None, "")


def test_a_selected_list_does_not_know_what_remains() -> None:
    """Counting it would mean to look at everything."""
    _, view, nodes = cluster()
    page = view.page(nodes, ListOptions(limit=1, chosen=lambda o: o["metadata"]["name"] in {"n1", "n4"}))
    assert (names(page), page.remaining) == (["n1"], None)
    assert names(view.page(nodes, ListOptions(chosen=lambda o: o["metadata"]["name"] == "n4", token=page.token))) == [
        "n4"
    ]


def test_a_continue_token_expires() -> None:
    """Once its moment is compacted, or out of the window, the list must begin anew."""
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


def test_nonsense_is_no_token() -> None:
    """400, not a list of something."""
    _, view, nodes = cluster()
    for token in ("%%%", "bm90IGpzb24"):
        assert refused(lambda t=token: view.page(nodes, ListOptions(token=t))).status == 400  # type: ignore[misc]  # the default binds the value of this round


def test_the_cache_answers_without_pages() -> None:
    """resourceVersion=0 ignores the limit, as the watch cache does."""
    _, view, nodes = cluster()
    assert len(view.page(nodes, ListOptions(limit=2, revision="0")).records) == 5


def test_an_exact_moment_can_be_listed() -> None:
    """Later and earlier changes are undone; beyond the window it is a 410."""
    c, view, nodes = cluster(2)
    then = c.store.revision
    c.store.patch("nodes", "n0", {"metadata": {"labels": {"a": "b"}}})
    c.store.delete("nodes", "n1")
    page = view.page(nodes, ListOptions(revision=str(then), exact=True))
    assert names(page) == ["n0", "n1"]
    assert "labels" not in page.records[0].obj["metadata"]
    c.store.compact()
    assert refused(lambda: view.page(nodes, ListOptions(revision=str(then), exact=True))).status == 410


def test_the_future_is_a_timeout() -> None:
    """A version this server has not seen: 504, and clients know the cause by name."""
    _, view, nodes = cluster(1)
    error = refused(lambda: view.page(nodes, ListOptions(revision="999")))
    assert (error.status, error.details["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")
    assert refused(lambda: view.page(nodes, ListOptions(revision="x"))).status == 400


def test_a_lagging_server_shows_the_past_until_it_catches_up() -> None:
    """Lists and cached reads are old, plain GETs are not; with consistent lists only what allows it is old."""
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
    """Each kind has a watch cache of its own, and they are not equally fast."""
    c, view, nodes = cluster(1)
    then = c.store.revision
    c.node("late")
    view.freeze(then, kinds=["pods"])
    assert names(view.page(nodes, ListOptions())) == ["late", "n0"]
    view.freeze(then, kinds=["pods", "nodes"])
    assert names(view.page(nodes, ListOptions())) == ["n0"]


def test_the_past_can_be_shown_even_after_compaction() -> None:
    """Expiring watches and travelling in time are two faults, that a test may combine."""
    c, view, nodes = cluster(1)
    then = c.store.revision
    c.node("late")
    c.store.compact()
    view.freeze(then)
    assert names(view.page(nodes, ListOptions())) == ["n0"]


@pytest.mark.parametrize("window", [1, 2, 3])
def test_a_watch_resumes_within_the_window_only(window) -> None:
    """From exactly the oldest event that was dropped, and no earlier."""
    c, _, nodes = cluster(5, window=window)
    newest = c.store.revision
    assert len(nodes.history.since(newest - window, newest)) == window
    error = refused(lambda: nodes.history.since(newest - window - 1, newest))
    assert (error.status, error.message) == (
        410,
        f"too old resource version: {newest - window - 1} ({newest - window})",
    )


def test_a_selector_makes_objects_come_and_go() -> None:
    """Beginning to match is ADDED, ceasing to is DELETED, whatever happened to the object itself."""
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
