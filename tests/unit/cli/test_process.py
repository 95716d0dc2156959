"""The figures and names of the process, the chart and docs/reference/process.md agree."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from controllers.model.crd_deletion import NODECLAIM_CRD
from provisioner.cli.commands.check import FAILED_CHECK
from provisioner.cli.commands.refusal import FAILED
from provisioner.cli.main import CLOSED, INTERRUPTED, OK, USAGE
from provisioner.operator import controllers, health
from provisioner.runtime import logs, server, signals
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


def failure_seconds(probe: Json) -> float:
    """Seconds until the probe has failed."""
    return float(probe.get("periodSeconds", 10) * probe.get("failureThreshold", 3))


def test_the_shutdown_ends_within_the_termination_grace_period(pod: Json) -> None:
    """The release of the Lease and the shutdown of both servers leave a margin of five seconds."""
    release = inspect.signature(LeaderElector).parameters["request_timeout_seconds"].default
    budget = release + 2 * server.SHUTDOWN_SECONDS
    assert pod["terminationGracePeriodSeconds"] >= budget + 5


def test_probes_tolerate_slow_processes(pod: Json) -> None:
    """A start may take a minute, and a reconciliation its whole timeout."""
    (controller,) = pod["containers"]
    assert failure_seconds(controller["startupProbe"]) >= 60
    assert controller["startupProbe"]["httpGet"] == controller["livenessProbe"]["httpGet"]
    assert controller["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert controller["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert health.STALE_SECONDS > 2 * controllers.RECONCILE_TIMEOUT_SECONDS


def test_the_page_lists_the_checks_of_both_probes() -> None:
    """With the names that `?verbose` prints."""
    nothing: Any = None
    live = health.live(nothing, nothing, lambda: False)
    ready = health.ready(nothing, nothing, nothing, lambda: False, {"cluster": nothing, "lease": nothing})
    rows = re.findall(r"^\| `/(healthz|readyz)/(\w+)` \|", PAGE, re.MULTILINE)
    assert rows == [*(("healthz", name) for name in live), *(("readyz", name) for name in ready)]
    assert NODECLAIM_CRD in PAGE


def test_the_page_lists_the_keys_of_log_lines() -> None:
    rows = re.findall(r"^\| `([A-Za-z]+)` \|", PAGE, re.MULTILINE)
    assert rows[: len(logs.FIRST_KEYS)] == list(logs.FIRST_KEYS)
    assert {"controller", "controllerGroup", "controllerKind", "NodeClaim", "namespace", "name", "key"} <= set(rows)
    assert f"the first {logs.FIRST} of a second" in PAGE
    assert all(f"`{logger}`" in PAGE for logger in logs.AUDIT)
    assert f" {COMMIT}=${{REVISION}}" in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_page_lists_the_exit_codes() -> None:
    codes = [OK, FAILED, USAGE, FAILED_CHECK, INTERRUPTED, signals.Signalled(15).exit_code, CLOSED]
    assert [int(code) for code in re.findall(r"`(\d{1,3})`(?=[^|]*\|)", PAGE)] == codes
