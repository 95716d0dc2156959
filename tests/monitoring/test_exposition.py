"""What the program exposes after an afternoon is as Prometheus' own checker wants it, and what the table says."""

import subprocess

from prometheus_client.parser import text_string_to_metric_families

from provisioner.metrics.definitions import FAMILIES
from tools.monitoring.prometheus import binary
from tools.monitoring.recording import Recording


def test_promtool_finds_nothing_to_say(recording: Recording) -> None:
    """Names, units, help and kinds are as `promtool check metrics` asks for."""
    command = [binary("promtool"), "check", "metrics"]
    found = subprocess.run(command, input=recording.exposition, capture_output=True, text=True, check=False, timeout=60)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_a_process_exposes_the_table_and_nothing_else(recording: Recording) -> None:
    """Every family of the table is there under its kind, those of the process and of Python among them."""
    exposed = {
        family.name + ("_total" if family.type == "counter" else ""): family.type
        for family in text_string_to_metric_families(recording.exposition)
    }
    kinds = {"untyped": "unknown"}
    assert exposed == {family.name: kinds.get(family.kind, family.kind) for family in FAMILIES}
