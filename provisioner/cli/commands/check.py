"""`check`: whether everything that the controller needs is there; a line each, ✓, ✗ or -, with a remedy.

Nothing is written. Each section goes on without the others: a cluster that does not answer keeps nobody from
hearing of Azure. Exit codes: 0 nothing is ✗, 3 something is, 2 usage.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack

import msgspec

from provisioner.api.nodeclaim import NodeClaim
from provisioner.operator.clients import open_arm, open_kube
from provisioner.operator.config import Config, azure_config, check_files, config_from
from provisioner.runtime.clock import SystemClock
from provisioner.runtime.kubernetes_sdk import ConfigException
from provisioner.settings import Settings, SettingsError, assignment

from .check_azure import azure
from .check_kubernetes import kubernetes
from .check_results import MARKS, CheckResult, CheckResults, well
from .console import Console
from .refusal import OK
from .tables import counted

FOUND = 3
KUBECONFIG = "KUBECONFIG"


async def run(
    settings: Settings | SettingsError, env: Mapping[str, str], wanted: argparse.Namespace, console: Console
) -> int:
    """Look at everything, and tell it; returns the exit code. Settings that are wrong are findings too."""
    configured, broken = configuration(settings, env)
    found = list(configured.items)
    if isinstance(settings, SettingsError):
        found += (*_skipped("kubernetes"), *_skipped("azure"))
        return tell(found, wanted, console)
    config, claims = config_from(settings), None
    if KUBECONFIG in broken:
        found += _skipped("kubernetes")
    else:
        section, claims = await _kubernetes(settings, config)
        found += section.items
    found += _skipped("azure") if broken - {KUBECONFIG} else await _azure(settings, config, claims, wanted.size)
    return tell(found, wanted, console)


def configuration(settings: Settings | SettingsError, env: Mapping[str, str]) -> tuple[CheckResults, frozenset[str]]:
    """The section, and the names of what is wrong."""
    found = CheckResults("configuration")
    errors = list(settings.errors) if isinstance(settings, SettingsError) else []
    if isinstance(settings, Settings):
        for warning in settings.warnings:
            found.unknown("settings", f"probably not meant: {warning}")
        try:
            check_files(settings, env)
        except SettingsError as invalid:
            errors += invalid.errors
    for error in errors:
        found.bad("settings", f"{assignment(error)}: {error.message}", error.remedy)
    if not errors:
        found.ok("settings", "all can be used; gpu-provisioner config shows them")
    return found, frozenset(error.field for error in errors)


def _skipped(section: str) -> list[CheckResult]:
    found = CheckResults(section)
    found.unknown("all of it", "not asked, as the settings for it are wrong")
    return found.items


async def _kubernetes(settings: Settings, config: Config) -> tuple[CheckResults, tuple[NodeClaim, ...] | None]:
    try:
        async with open_kube(settings) as kube:
            return await kubernetes(kube, config, SystemClock())
    except ConfigException as error:
        found = CheckResults("kubernetes")
        found.bad("kubeconfig", str(error), "Correct the kubeconfig, or name another one with KUBECONFIG.")
        return found, None


async def _azure(
    settings: Settings, config: Config, claims: tuple[NodeClaim, ...] | None, sizes: Sequence[str]
) -> list[CheckResult]:
    async with AsyncExitStack() as open_until_then:
        try:
            arm = await open_until_then.enter_async_context(open_arm(settings))
        except (OSError, ValueError) as error:
            found, why = CheckResults("azure"), getattr(error, "strerror", None) or type(error).__name__
            remedy = "Check SSL_CERT_FILE and the identity's settings."
            found.bad("credential", f"no connection can be made: {why}", remedy)
            return found.items
        found = await azure(arm, config.policy, config=azure_config(settings), claims=claims, sizes=sizes)
    return found.items


def tell(found: Sequence[CheckResult], wanted: argparse.Namespace, console: Console) -> int:
    """Print it; returns the exit code."""
    fine = well(found)
    if wanted.output == "json":
        console.say(msgspec.json.format(msgspec.json.encode({"ok": fine, "findings": found}), indent=2).decode())
    else:
        console.say(*_lines(found))
    return OK if fine else FOUND


def _lines(found: Sequence[CheckResult]) -> Iterator[str]:
    section, width = "", max(len(one.check) for one in found)
    for one in found:
        if one.section != section:
            section = one.section
            yield section
        yield f"  {MARKS[one.state]} {one.check:<{width}}  {one.message}"
        if one.remedy:
            yield f"    {'':<{width}}  {one.remedy}"
    bad, unknown = (sum(one.state == state for one in found) for state in ("bad", "unknown"))
    told = f"; {counted(unknown, 'line')} marked -" if unknown else ""
    yield ""
    yield f"{counted(bad, 'problem') if bad else 'nothing is wrong'}{told}"
