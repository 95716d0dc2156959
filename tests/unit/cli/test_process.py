"""How the program starts and ends, and what the chart and the page count on: one set of figures and names."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from controllers.state.indexes import NODECLAIM_CRD
from provisioner.cli.commands.check import FOUND
from provisioner.cli.main import FAILED, INTERRUPTED, OK, USAGE
from provisioner.operator import controllers, health
from provisioner.runtime import log_sampling, logs, server, signals
from provisioner.runtime.leaderelection import LeaderElector
from provisioner.version import COMMIT
from tests.unit.charts import chart_values

Json = dict[str, Any]
ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "process.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pod() -> Json:
    (deployment,) = [obj for obj in chart_values.render(chart_values.NEEDED) if obj["kind"] == "Deployment"]
    spec: Json = deployment["spec"]["template"]["spec"]
    return spec


def lasts(probe: Json) -> float:
    """Seconds until it is given up."""
    return float(probe.get("periodSeconds", 10) * probe.get("failureThreshold", 3))


def test_it_has_ended_five_seconds_before_it_would_be_killed(pod: Json) -> None:
    """Passes are cut at once; then the lease is given back, with its timeout, and both servers close."""
    release = inspect.signature(LeaderElector).parameters["request_timeout_seconds"].default
    budget = release + 2 * server.SHUTDOWN_SECONDS
    assert pod["terminationGracePeriodSeconds"] >= budget + 5


def test_no_probe_kills_what_is_only_slow(pod: Json) -> None:
    """A start may take a minute; a pass that uses its whole deadline is no reason to restart, one that hangs is."""
    (controller,) = pod["containers"]
    assert lasts(controller["startupProbe"]) >= 60
    assert controller["startupProbe"]["httpGet"] == controller["livenessProbe"]["httpGet"]
    assert controller["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert controller["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert health.STALE_SECONDS > 2 * controllers.RECONCILE_TIMEOUT_SECONDS


def test_the_page_names_the_checks_of_both_probes() -> None:
    """One line each, by the name under which `?verbose` shows it."""
    nothing: Any = None
    live = health.live(nothing, nothing, lambda: False)
    ready = health.ready(nothing, nothing, nothing, lambda: False)
    rows = re.findall(r"^\| `/(healthz|readyz)/(\w+)` \|", PAGE, re.MULTILINE)
    assert rows == [*(("healthz", name) for name in live), *(("readyz", name) for name in ready)]
    assert NODECLAIM_CRD in PAGE


def test_the_page_names_the_keys_of_a_log_line() -> None:
    """Those of every line, and those of a pass."""
    rows = re.findall(r"^\| `([A-Za-z]+)` \|", PAGE, re.MULTILINE)
    assert rows[: len(logs.FIRST_KEYS)] == list(logs.FIRST_KEYS)
    assert {"controller", "controllerGroup", "controllerKind", "NodeClaim", "namespace", "name", "key"} <= set(rows)
    assert f"the first {log_sampling.FIRST} of a second" in PAGE
    assert f"`{log_sampling.AUDIT}`" in PAGE
    assert f" {COMMIT}=${{REVISION}}" in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_page_names_the_exit_codes() -> None:
    """Of `run` and of the commands."""
    codes = [OK, FAILED, USAGE, FOUND, INTERRUPTED, signals.Signalled(15).exit_code]
    assert [int(code) for code in re.findall(r"`(\d{1,3})`(?=[^|]*\|)", PAGE)] == codes
