"""The words that the script of `completion` requests from the program at each Tab.

Regions and sizes are those of the packaged tables. Names of objects are read from the cluster that the flags so far
select, as kubectl does; a cluster that does not answer in time, or refuses, has none.
"""

import argparse
import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import argcomplete
from argcomplete.completers import BaseCompleter, FilesCompleter

from .arguments import Completes
from .parser import build_parser


def complete() -> None:
    """Print the completions that the environment requests, and exit."""
    parser = build_parser(list_settings=True)
    # Flags are offered once a dash is typed: before it, they hide the names.
    argcomplete.autocomplete(parser, default_completer=_Values(), always_complete_options=False)


class _Values(BaseCompleter):
    """Completes the value of an argument with what it declares."""

    def __call__(
        self, *, prefix: str, action: argparse.Action, parsed_args: argparse.Namespace, **_: object
    ) -> Iterable[str]:
        declared = getattr(action, "completes", Completes.NOTHING)
        if action.type is Path or declared is Completes.FILES:
            return list(FilesCompleter()(prefix))
        if declared in (Completes.REGIONS, Completes.SIZES):
            from provisioner.operator.azure import CLOUD

            return CLOUD.known_regions() if declared is Completes.REGIONS else CLOUD.known_sizes()
        flags = {name[2:]: value for name, value in vars(parsed_args).items() if name.startswith("--")}
        return () if declared is Completes.NOTHING else _of_cluster(declared, prefix, flags)


def _of_cluster(declared: Completes, prefix: str, flags: Mapping[str, str]) -> Sequence[str]:
    """Names of the kubeconfig or of the cluster; none if it cannot be read."""
    import msgspec
    import yaml

    from provisioner.cli.commands import completed
    from provisioner.runtime.kube_errors import KubeError
    from provisioner.runtime.kubernetes_sdk import ConfigException
    from provisioner.settings import SettingsError, load

    try:
        settings = load(flags, os.environ, None, acts=False, azure=False)
        if declared is Completes.CONTEXTS:
            return completed.contexts(settings)
        return asyncio.run(completed.names(settings, declared, prefix))
    except (SettingsError, ConfigException, KubeError, OSError, ValueError, yaml.YAMLError, msgspec.MsgspecError):
        return ()
