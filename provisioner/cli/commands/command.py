"""The commands on the command line: flags, settings, connections, exit codes.

The settings are those of `run`, by flag, environment or file, and are read by the same code. Exit codes: 0
done, 1 refused or failed, 2 bad usage or settings, 3 `check` found something, 130 or 143 interrupted. A failure is a
line for the cause and one for the remedy on `err`, never a traceback for what a user, the API server or ARM may do.
Both SDKs take half a second to import: not for --help, nor for a mistake in the words.
"""

import argparse
import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from provisioner.runtime import logs
from provisioner.runtime.clock import SystemClock
from provisioner.runtime.signals import Signalled, until_signalled
from provisioner.settings import Settings, SettingsError, load, read_file, read_flags

from .console import Console, asking
from .flags import parsed
from .refusal import USAGE, Refused

if TYPE_CHECKING:
    from .clients import Tools


def run(name: str, words: Sequence[str], env: Mapping[str, str], *, typed: TextIO, out: TextIO, err: TextIO) -> int:
    """Run the command of that name; returns the exit code."""
    try:
        return _run(name, words, env, typed=typed, out=out, err=err)
    except Signalled as asked:
        return asked.exit_code


def _run(name: str, words: Sequence[str], env: Mapping[str, str], *, typed: TextIO, out: TextIO, err: TextIO) -> int:
    if name == "plan":
        return _offline(words, typed, Console(out, err))
    try:
        flags, rest = read_flags(words)
        wanted = parsed(name, rest, out=out, err=err)
        if isinstance(wanted, int):
            return wanted
        if name == "check":
            return _checked(flags, env, wanted, Console(out, err))
        file = read_file(wanted.config) if wanted.config else None
        if name == "values":
            return _written(load(flags, env, file, acts=False), wanted, Console(out, err))
        settings = load(flags, env, file)
        from provisioner.operator.config import check_files

        check_files(settings, env)
    except SettingsError as error:
        err.write(f"gpu-provisioner {name}: {error}\n")
        return USAGE
    logs.configure(SystemClock(), level="error", stream=err)
    return _ended(name, _within(name, settings, wanted, Console(out, err, asking(typed, err))), err)


def _offline(words: Sequence[str], typed: TextIO, console: Console) -> int:
    wanted = parsed("plan", words, out=console.out, err=console.err)
    if isinstance(wanted, int):
        return wanted
    try:
        from . import plan
    except ModuleNotFoundError as error:
        remedy = "pip install 'aks-gpu-provisioner[try]'"
        return _told("plan", Refused(f"{error.name} is not installed", remedy, USAGE), console)
    try:
        return plan.run(wanted, typed, console)
    except Refused as refused:
        return _told("plan", refused, console)


def _checked(flags: Mapping[str, str], env: Mapping[str, str], wanted: argparse.Namespace, console: Console) -> int:
    """`check`, for which settings that are wrong are a finding among others."""
    settings: Settings | SettingsError
    try:
        settings = load(flags, env, read_file(wanted.config) if wanted.config else None)
    except SettingsError as error:
        settings = error
    from . import check

    logs.configure(SystemClock(), level="error", stream=console.err)
    return asyncio.run(until_signalled(check.run(settings, env, wanted, console)))


def _written(settings: Settings, wanted: argparse.Namespace, console: Console) -> int:
    """`values`, which needs Azure alone, and nobody's identity but that of whoever runs it."""
    from . import values

    logs.configure(SystemClock(), level="error", stream=console.err)
    try:
        return asyncio.run(until_signalled(values.run(settings, wanted, console)))
    except Refused as refused:
        return _told("values", refused, console)


def _told(name: str, refused: Refused, console: Console) -> int:
    console.err.write(f"gpu-provisioner {name}: {refused.cause}\n    {refused.remedy}\n")
    return refused.code


async def act(name: str, tools: "Tools", wanted: argparse.Namespace, console: Console) -> int:
    """Do what the parsed words say, and tell why if it is refused; returns the exit code."""
    from . import adopt, gc, release

    acts = {"gc": gc.run, "adopt": adopt.run, "release": release.run}
    try:
        return await acts[name](tools, wanted, console)
    except Refused as refused:
        return _told(name, refused, console)


async def _within(name: str, settings: Settings, wanted: argparse.Namespace, console: Console) -> int:
    from .clients import opened

    async with opened(settings) as tools:
        return await act(name, tools, wanted, console)


def _ended(name: str, work: Coroutine[Any, Any, int], err: TextIO) -> int:
    from provisioner.runtime.kubernetes_sdk import ConfigException

    try:
        return asyncio.run(until_signalled(work))
    except SettingsError as error:
        err.write(f"gpu-provisioner {name}: {error}\n")
        return USAGE
    except ConfigException as error:
        remedy = "Mend the kubeconfig, or name another with KUBECONFIG."
        err.write(f"gpu-provisioner {name}: {error}\n    {remedy}\n")
        return USAGE
