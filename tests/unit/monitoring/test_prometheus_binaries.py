"""How the monitoring tests find Prometheus' programs, and their message if a program is missing."""

from pathlib import Path

import pytest

from tools.monitoring.prometheus import NotInstalled, binary


def test_prometheus_bin_takes_precedence_over_the_path(tmp_path: Path) -> None:
    for folder in ("named", "on-path"):
        program = tmp_path / folder / "promtool"
        program.parent.mkdir()
        program.touch(mode=0o755)
    found = {"PROMETHEUS_BIN": str(tmp_path / "named"), "PATH": str(tmp_path / "on-path")}
    assert binary("promtool", found) == str(tmp_path / "named" / "promtool")
    assert binary("promtool", {"PATH": found["PATH"]}) == str(tmp_path / "on-path" / "promtool")


def test_a_missing_program_is_reported_in_one_line_with_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(NotInstalled) as missing:
        binary("prometheus", {"PROMETHEUS_BIN": str(tmp_path)})
    assert str(missing.value) == (
        f"prometheus is not in {tmp_path}: install the Debian package `prometheus`, or set PROMETHEUS_BIN to the folder"
        " of the programs"
    )
    with pytest.raises(NotInstalled, match="prometheus is not on the PATH: install the Debian package"):
        binary("prometheus", {"PATH": str(tmp_path)})
