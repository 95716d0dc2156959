"""kubernetes_asyncio, as much of it as is used: its client, transport, configuration and errors.

Importing this does not load the SDK's 830 modules of models and API groups, which would be a third of our
memory and of the time to start. They are not hidden either: whoever asks the packages for one of them gets it, with all
the others. Where the SDK was imported before, it is used as it is.

Why: to import any part of a package runs the package's `__init__` first, and those of these three import everything.
"""

import importlib
import sys
from importlib.machinery import PathFinder
from importlib.metadata import version
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any

SDK = "kubernetes_asyncio"
# What the SDK's own modules take from the package rather than from the module that makes it, in the order of making.
TAKEN = (("configuration", "Configuration"), ("api_client", "ApiClient"))


def _spare_the_models() -> None:
    root = _deferred(SDK, None)
    root.client = client = _deferred(f"{SDK}.client", root)
    client.models = _deferred(f"{SDK}.client.models", client)
    for module, name in TAKEN:
        setattr(client, name, getattr(importlib.import_module(f"{SDK}.client.{module}"), name))


def _deferred(name: str, parent: ModuleType | None) -> Any:
    """A package whose `__init__` runs once something is asked of it that it does not have, nor any file of its own."""
    spec = PathFinder.find_spec(name, parent.__path__ if parent is not None else None)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    package, initialize = module_from_spec(spec), spec.loader.exec_module

    def ask(wanted: str) -> Any:
        if wanted == "__version__":  # asked by parts that the `__init__` needs before it says so itself
            return version(SDK)
        if PathFinder.find_spec(f"{name}.{wanted}", package.__path__) is not None:
            return importlib.import_module(f"{name}.{wanted}")
        vars(package).pop("__getattr__", None)
        initialize(package)
        return getattr(package, wanted)

    vars(package)["__getattr__"] = ask
    sys.modules[name] = package
    return package


if SDK not in sys.modules:
    _spare_the_models()

# ruff: noqa: E402 - only now
from kubernetes_asyncio.client import ApiClient, Configuration
from kubernetes_asyncio.client.exceptions import OpenApiException
from kubernetes_asyncio.client.rest import RESTClientObject
from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config

__all__ = [
    "ApiClient",
    "ConfigException",
    "Configuration",
    "OpenApiException",
    "RESTClientObject",
    "load_incluster_config",
    "load_kube_config",
]
