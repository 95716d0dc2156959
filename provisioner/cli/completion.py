"""Completion of the command line in a shell, written from the same tables that read it.

Every command, every flag and every choice that is read is offered, and nothing else; what is no word of ours
is left to the shell, which completes file names. The flags of `try` are offered only where it is installed.

    eval "$(gpu-provisioner completion bash)"        in ~/.bashrc; for zsh the same with zsh, in ~/.zshrc
"""

import argparse
from collections.abc import Iterable, Mapping

from provisioner.settings import OPTIONS

from .commands import flags

SHELLS = ("bash", "zsh")
ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"
HELP = ("--help",)


def script(shell: str, commands: Iterable[str]) -> str:
    """What that shell is to read. Raises KeyError for a shell that is none of SHELLS."""
    prefix = {"bash": "", "zsh": ZSH}[shell]
    words: dict[str, tuple[str, ...]] = {}
    choices: dict[str, tuple[str, ...]] = {}
    for command in commands:
        words[command], after = _of(command)
        choices |= {f"{command} {flag}": values for flag, values in after.items()}
    return f"""{prefix}_gpu_provisioner() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} words=
    case "${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD-1]}}" in
{_cases(choices)}
        *) case "${{COMP_WORDS[1]}}" in
{_cases(words)}
        esac ;;
    esac
    [ "$COMP_CWORD" -gt 1 ] || words="{" ".join([*words, *HELP, "--version"])}"
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _gpu_provisioner gpu-provisioner
"""


def _cases(offered: Mapping[str, tuple[str, ...]]) -> str:
    return "\n".join(f'        "{typed}") words="{" ".join(words)}" ;;' for typed, words in offered.items())


def _of(command: str) -> tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]:
    """The words of a command, and those that may follow one of its flags."""
    settings = tuple(f"--{option.flag}" for option in OPTIONS)
    match command:
        case "run" | "config":
            return (*settings, "--config", *HELP), {}
        case "completion":
            return SHELLS, {}
        case "version":
            return (), {}
        case "try":
            parser = _trial()
        case _:
            parser = flags.parser_of(command)
    if parser is None:
        return (), {}
    after = {flag: tuple(map(str, a.choices)) for a in _actions(parser) if a.choices for flag in a.option_strings}
    own = tuple(flag for action in _actions(parser) for flag in action.option_strings)
    shared = settings if command in flags.COMMANDS and flags.COMMANDS[command].settings else ()
    return (*own, *shared), after


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return parser._actions  # noqa: SLF001 - argparse has no other way to ask for them


def _trial() -> argparse.ArgumentParser | None:
    try:
        from provisioner.trial.command import parser_of_try
    except ModuleNotFoundError:  # it is an extra
        return None
    return parser_of_try()
