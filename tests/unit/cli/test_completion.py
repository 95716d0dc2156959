"""Shell completion offers the words that the parser accepts; bash runs the script."""

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from provisioner.cli.definitions import COMMANDS
from provisioner.cli.main import run_command
from provisioner.settings import OPTIONS

BASH = shutil.which("bash") or "/bin/bash"


def script(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return run_command(["completion", *words], {}, out, err), out.getvalue(), err.getvalue()


def offered(*typed: str, **env: str) -> set[str]:
    """The completions of bash for the last of these words; the script calls the installed program."""
    code, read, _ = script("bash")
    assert code == 0
    line = " ".join(("gpu-provisioner", *typed))
    words = " ".join(f"'{word}'" for word in ("gpu-provisioner", *typed))
    (function,) = re.findall(r"complete .*-F (\w+) gpu-provisioner", read)
    request = (
        f"COMP_WORDS=({words}) COMP_CWORD={len(typed)} COMP_LINE='{line}' COMP_POINT={len(line)} COMP_TYPE=9;"
        f" {function} gpu-provisioner; printf '%s\n' \"${{COMPREPLY[@]}}\""
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [BASH, "-c", f"{read}\n{request}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PATH": path, **env},
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_commands_are_completed() -> None:
    """All commands, or those with the typed prefix."""
    assert offered("") >= set(COMMANDS)
    assert offered("re") == {"release"}
    assert offered("-") == {"-h", "--help", "--version"}


def test_settings_are_completed_where_they_apply() -> None:
    """For commands that accept settings, not for `plan`."""
    settings = {f"--{option.flag}" for option in OPTIONS}
    for name, command in COMMANDS.items():
        assert (settings <= offered(name, "--")) is bool(command.settings)
    assert not settings & offered("plan", "--")


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (("gc", "--"), {"--dry-run", "--confirm", "--yes", "--output", "--config", "--help"}),
        (("gc", "-o", ""), {"table", "json", "yaml"}),
        (("plan", "-o", "y"), {"yaml"}),
        (("try", "--fail", "q"), {"quota"}),
        (("try", "--on"), {"--once"}),
        (("completion", ""), {"bash", "zsh", "fish"}),
        (("help", "re"), {"release"}),
        (("run", "nothing"), set()),
    ],
)
def test_flags_and_choices_are_completed(typed: tuple[str, ...], words: set[str]) -> None:
    assert words <= offered(*typed)
    if typed[-1] not in ("", "--"):
        assert offered(*typed) == words


def test_files_are_completed(tmp_path) -> None:
    (tmp_path / "claim.yaml").touch()
    for words in (("plan", "-f"), ("gc", "--config"), ("run", "--ssl-cert-file")):
        assert offered(*words, f"{tmp_path}/c") == {f"{tmp_path}/claim.yaml"}


def test_regions_and_sizes_are_those_of_the_tables() -> None:
    assert {"eastus", "eastus2"} <= offered("schedule", "--region", "eastus")
    assert offered("plan", "--region", "westeur") == {"westeurope"}
    assert offered("check", "--size", "Standard_NC24ads_A1") == {"Standard_NC24ads_A100_v4"}


def test_contexts_are_those_of_the_kubeconfig(tmp_path: Path) -> None:
    """A kubeconfig that cannot be used offers nothing, and neither does a cluster that cannot be reached."""
    good, bad = tmp_path / "good", tmp_path / "bad"
    cluster = "{name: c, cluster: {server: 'http://127.0.0.1:1'}}"
    contexts = "{name: prod, context: {cluster: c}}, {name: staging, context: {cluster: c}}"
    good.write_text(f"kind: Config\ncurrent-context: prod\nclusters: [{cluster}]\ncontexts: [{contexts}]\n")
    bad.write_text("contexts: [")
    assert offered("gc", "--context", "", KUBECONFIG=str(good)) == {"prod", "staging"}
    assert offered("gc", "--context", "st", KUBECONFIG=f"{good}{os.pathsep}{good}") == {"staging"}
    assert offered("gc", "--context", "", KUBECONFIG=str(bad)) == set()
    for kubeconfig in (good, bad, tmp_path / "none"):
        assert offered("release", "", KUBECONFIG=str(kubeconfig)) == set()


@pytest.mark.parametrize(
    ("shell", "function"), [("zsh", "#compdef gpu-provisioner"), ("fish", "complete --command gpu-provisioner")]
)
def test_other_shells_have_a_script(shell: str, function: str) -> None:
    code, read, err = script(shell)
    assert (code, err) == (0, "")
    assert function in read


@pytest.mark.parametrize("words", [(), ("elvish",), ("bash", "zsh")])
def test_an_unsupported_shell_is_rejected(words: tuple[str, ...]) -> None:
    """One line for the cause, one for the remedy."""
    code, read, err = script(*words)
    cause, remedy = err.splitlines()
    assert (code, read, remedy[:4]) == (2, "", "    ")
    assert cause.startswith("gpu-provisioner completion: ")
