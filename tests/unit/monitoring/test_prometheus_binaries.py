"""Where the monitoring tests look for Prometheus' programs, and what they say if these are not there."""

from pathlib import Path

import pytest

from tools.monitoring.prometheus import NotInstalled, binary


def test_the_folder_that_is_named_counts_before_the_path(tmp_path: Path) -> None:
    """Whoever names a folder means the programs in it."""
    for folder in ("named", "on-path"):
        program = tmp_path / folder / "promtool"
        program.parent.mkdir()
        program.touch(mode=0o755)
    found = {"PROMETHEUS_BIN": str(tmp_path / "named"), "PATH": str(tmp_path / "on-path")}
    assert binary("promtool", found) == str(tmp_path / "named" / "promtool")
    assert binary("promtool", {"PATH": found["PATH"]}) == str(tmp_path / "on-path" / "promtool")


def test_what_is_missing_is_said_in_one_line_with_its_remedy(tmp_path: Path) -> None:
    """Which program, where it was looked for, and how to get it."""
    with pytest.raises(NotInstalled) as missing:
        binary("prometheus", {"PROMETHEUS_BIN": str(tmp_path)})
    assert str(missing.value) == (
        f"prometheus is not in {tmp_path}: install Debian's package `prometheus`, or name a folder that holds them in"
        " PROMETHEUS_BIN"
    )
    with pytest.raises(NotInstalled, match="prometheus is not on the PATH: install Debian's package"):
        binary("prometheus", {"PATH": str(tmp_path)})
