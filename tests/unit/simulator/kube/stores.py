"""A store on a manual clock and a small CRD, for tests of the simulated API server."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from provisioner.simulator.kube.errors import ApiError
from provisioner.simulator.kube.resources import CRD_KEY
from provisioner.simulator.kube.store import Store
from tests.widgets import widget_crd

Json = dict[str, Any]
BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
WIDGETS = "widgets.example.com"

WIDGET_CRD = widget_crd("example.com")


class Cluster:
    """A store, its clock, and everything that was reported to a subscriber."""

    def __init__(self, *, window: int = 1000, widgets: bool = True) -> None:
        self.now = BEGIN
        self.store = Store(lambda: self.now, seed_uid=Random(7), window=window)
        if widgets:
            self.store.create(CRD_KEY, WIDGET_CRD)
        self.reported: list[tuple[str, str, str]] = []
        self.store.subscribe(lambda kind, key, obj, _: self.reported.append((kind, key, obj["metadata"]["name"])))

    def after(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def node(self, name: str = "n1", **fields: Any) -> Json:
        return self.store.create("nodes", {"metadata": {"name": name}, **fields})

    def widget(self, name: str = "w1", spec: Json | None = None, **metadata: Any) -> Json:
        return self.store.create(WIDGETS, {"metadata": {"name": name, **metadata}, "spec": spec or {"size": 1}})

    def pod(
        self,
        name: str = "p1",
        node: str = "n1",
        labels: Json | None = None,
        *,
        phase: str = "Running",
        ready: bool = True,
    ) -> Json:
        spec = {"nodeName": node} if node else {}
        self.store.create("pods", {"metadata": {"name": name, "labels": labels or {}}, "spec": spec})
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        status = {"phase": phase, "conditions": conditions}
        return self.store.patch("pods", name, {"status": status}, "default", subresource="status")


def refused(call: Callable[[], object]) -> ApiError:
    """The refusal of a call that must not succeed."""
    with pytest.raises(ApiError) as caught:
        call()
    return caught.value
