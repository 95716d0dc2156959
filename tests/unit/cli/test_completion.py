"""Completion, asked of a real shell: what it offers is what the program reads."""

import io
import shutil
import subprocess

import pytest

from provisioner.cli.main import COMMANDS, run_command
from provisioner.settings import OPTIONS

BASH = shutil.which("bash") or "/bin/bash"


def script(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return run_command(["completion", *words], {}, out, err), out.getvalue(), err.getvalue()


def offered(*typed: str) -> list[str]:
    """What bash offers for the last of these words, in the order of its list."""
    code, read, _ = script("bash")
    assert code == 0
    words = " ".join(f"'{word}'" for word in ("gpu-provisioner", *typed))
    asked = (
        f'{read}\nCOMP_WORDS=({words}) COMP_CWORD={len(typed)}\n_gpu_provisioner\nprintf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run([BASH, "-uc", asked], capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_each_command_is_offered_first() -> None:
    """Then help and version; and what begins so, once something is typed."""
    assert offered("") == [*COMMANDS, "--help", "--version"]
    assert offered("re") == ["release"]


def test_settings_are_offered_where_they_count() -> None:
    """After `run` and `config`, and after the commands that read them; not after `plan`, which needs none."""
    settings = [f"--{option.flag}" for option in OPTIONS]
    for command in ("run", "config", "check", "gc", "adopt", "release", "values"):
        assert set(settings) <= set(offered(command, "--"))
    assert not set(settings) & set(offered("plan", "--"))


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (("gc", "--"), {"--dry-run", "--confirm", "--yes", "--output", "--config", "--help"}),
        (("gc", "-o", ""), {"table", "json"}),
        (("plan", "-o", "y"), {"yaml"}),
        (("try", "--fail", "q"), {"quota"}),
        (("try", "--on"), {"--once"}),
        (("completion", ""), {"bash", "zsh"}),
        (("version", ""), set()),
        (("run", "nothing-of-ours"), set()),
    ],
)
def test_flags_and_their_choices_are_offered(typed: tuple[str, ...], words: set[str]) -> None:
    """What a command reads, and nothing after a word that is none of ours: then the shell completes file names."""
    assert words <= set(offered(*typed))
    if not typed[-1].startswith("--"):
        assert set(offered(*typed)) == words


def test_zsh_reads_the_same_through_its_own_bridge() -> None:
    code, read, _ = script("zsh")
    assert code == 0
    assert read.startswith("autoload -U +X compinit")
    assert read.endswith(script("bash")[1])


@pytest.mark.parametrize("words", [(), ("fish",), ("bash", "zsh")])
def test_another_shell_is_told_which_there_are(words: tuple[str, ...]) -> None:
    """One line for the cause, one for the remedy."""
    assert script(*words) == (2, "", "gpu-provisioner completion: for which shell?\n    Name one of: bash, zsh.\n")
