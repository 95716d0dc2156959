"""The exposed metrics at the end of the scenario pass promtool's checks and match the table of families."""

import subprocess

from prometheus_client.parser import text_string_to_metric_families

from provisioner.metrics.definitions import FAMILIES
from tools.monitoring.prometheus import binary
from tools.monitoring.recording import Recording


def test_promtool_accepts_the_metrics(recording: Recording) -> None:
    """`promtool check metrics` reports nothing about names, units, help texts and kinds."""
    command = [binary("promtool"), "check", "metrics"]
    found = subprocess.run(command, input=recording.exposition, capture_output=True, text=True, check=False, timeout=60)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_a_process_exposes_the_table_and_nothing_else(recording: Recording) -> None:
    """Every family of the table is exposed with its kind, including those of the process and of Python."""
    exposed = {
        family.name + ("_total" if family.type == "counter" else ""): family.type
        for family in text_string_to_metric_families(recording.exposition)
    }
    kinds = {"untyped": "unknown"}
    assert exposed == {family.name: kinds.get(family.kind, family.kind) for family in FAMILIES}
