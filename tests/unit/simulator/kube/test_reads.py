"""Old revisions: how long they can be read, and a server that lags behind."""

import pytest

from provisioner.simulator.kube.reads import ListOptions, View

from .stores import Cluster, refused


def names(page):
    return [record.obj["metadata"]["name"] for record in page.records]


def cluster(count=5, **options):
    c = Cluster(widgets=False, **options)
    for i in range(count):
        c.node(f"n{i}")
    return c, View(c.store), c.store.collection("nodes")


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
