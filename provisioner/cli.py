"""The command line: what the program can be asked to do, and how it ends.

    gpu-provisioner [run] [flags]   the controller itself (the default, as for Azure/gpu-provisioner)
    gpu-provisioner try [...]       the same controller against an embedded cluster and Azure
    gpu-provisioner config          every setting, its value and where it came from
    gpu-provisioner version

Promise: exit codes 0 (done), 1 (failed while running), 2 (usage or settings), 130 (interrupted); one line for the
cause and one for the remedy; no traceback for a user's mistake. SIGTERM: work stops, the lease is released, exit 0.
Left to others: what runs (`app.py`), what settings mean (`settings`), the trial itself (`trial`).
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from .runtime import logs
from .runtime.clock import SystemClock
from .settings import OPTIONS, Problem, Settings, SettingsError, describe, load, read_flags
from .version import own_version

OK, FAILED, USAGE = 0, 1, 2
COMMANDS = ("run", "try", "config", "version")
HELP_FLAGS = frozenset({"-h", "-help", "--help"})


def main() -> None:
    """The console script."""
    sys.exit(run_command(sys.argv[1:], os.environ, sys.stdout, sys.stderr))


def run_command(arguments: Sequence[str], env: Mapping[str, str], out: TextIO, err: TextIO) -> int:
    """Run one command line; returns the exit code."""
    named = bool(arguments) and not arguments[0].startswith("-")
    command, rest = (arguments[0], arguments[1:]) if named else ("run", arguments)
    if command not in COMMANDS:
        err.write(f"gpu-provisioner: there is no command {command!r}\n    Use one of: {', '.join(COMMANDS)}.\n")
        return USAGE
    if command == "try":
        return _try(rest, out, err)
    if HELP_FLAGS & set(rest):
        out.write(_help())
        return OK
    if command == "version":
        out.write(f"gpu-provisioner {own_version()}\n")
        return OK
    try:
        settings = _settings(rest, env)
    except SettingsError as error:
        err.write(f"gpu-provisioner: {error}\n")
        return USAGE
    if command == "config":
        width = max(len(name) for name, _, _ in describe(settings))
        out.writelines(f"{name:<{width}}  {value}  ({origin})\n" for name, value, origin in describe(settings))
        return OK
    return _run(settings, err)


def _settings(arguments: Sequence[str], env: Mapping[str, str]) -> Settings:
    flags, rest = read_flags(arguments)
    rest = [argument for argument in rest if argument != "--"]
    file: Mapping[str, Any] | None = None
    if rest[:1] == ["--config"] or (rest and rest[0].startswith("--config=")):
        file, rest = _config_file(rest)
    if rest:
        unknown = [
            Problem(name=word, value="", why="there is no such flag", remedy="Leave it out, or see --help.")
            for word in rest
        ]
        raise SettingsError(unknown)
    return load(flags, env, file)


def _config_file(rest: list[str]) -> tuple[Mapping[str, Any], list[str]]:
    name, _, path = rest[0].partition("=")
    path, left = (path, rest[1:]) if path else (rest[1] if len(rest) > 1 else "", rest[2:])
    try:
        import yaml  # only here: the file is optional, and so is the library

        with open(path, encoding="utf-8") as file:
            read = yaml.safe_load(file) or {}
    except (OSError, ImportError, yaml.YAMLError) as error:
        why = f"it cannot be read: {type(error).__name__}"
        raise SettingsError([Problem(name=name, value=path, why=why, remedy="Name a YAML file of settings.")]) from None
    if not isinstance(read, dict):
        raise SettingsError(
            [Problem(name=name, value=path, why="it is no mapping", remedy="Write `flag: value` lines.")]
        )
    return read, left


def _help() -> str:
    lines = [
        "usage: gpu-provisioner [run|try|config|version] [flags]",
        "",
        "Each flag has an environment variable:",
        "",
    ]
    lines += [f"  --{option.flag:<28} {option.env[0]:<28} {option.help}" for option in OPTIONS]
    return "\n".join([*lines, "", "gpu-provisioner try --help tells about the embedded cluster.", ""])


def _run(settings: Settings, err: TextIO) -> int:
    from .app import App  # the SDKs take a second to import: not for --help, nor for a settings error
    from .outside import connect, running_of

    logs.configure(SystemClock(), level=settings.log_level)
    log = logs.get_logger("cli")
    for warning in settings.warnings:
        log.warning(warning)
    for note in settings.notes:
        log.debug(note)

    async def controller() -> None:
        async with connect(settings) as outside:
            await App(outside, running_of(settings)).run()

    try:
        asyncio.run(until_signalled(controller()))
    except ExceptionGroup as group:
        return _told(group, err)
    return OK


def _told(group: ExceptionGroup[Exception], err: TextIO) -> int:
    """The exit code for what ended the controller; raises it again if it is neither the user's nor the cluster's."""
    from kubernetes_asyncio.config import ConfigException

    from .runtime.election import LeadershipLost

    first = _first(group)
    if isinstance(first, LeadershipLost):
        err.write(f"gpu-provisioner: {first}\n    Another replica leads, or the API server was away; start again.\n")
        return FAILED
    if isinstance(first, OSError):
        err.write(f"gpu-provisioner: {first}\n    Is the port taken, or a file missing?\n")
        return FAILED
    if isinstance(first, ConfigException | ValueError):
        err.write(
            f"gpu-provisioner: {first}\n    Check KUBECONFIG or the pod's service account, and Azure's variables.\n"
        )
        return USAGE
    raise group


def _first(error: BaseException) -> BaseException:
    """The first cause in a nest of exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def until_signalled(work: Any) -> None:
    """Run `work` until it ends or SIGTERM or SIGINT asks it to; a second signal ends the process at once."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def ask() -> None:
        if asked.is_set():
            os._exit(130)
        asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(work)
        waiting = tasks.create_task(asked.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        task.cancel()
        waiting.cancel()


def _try(arguments: Sequence[str], out: TextIO, err: TextIO) -> int:
    try:
        from .trial import command
    except ModuleNotFoundError as error:
        err.write(f"gpu-provisioner try: {error.name} is not installed\n    pip install 'aks-gpu-provisioner[try]'\n")
        return USAGE
    return command.run(arguments, out, err)
