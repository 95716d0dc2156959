"""The parts of kubernetes_asyncio that the program uses: client, transport, configuration and errors.

Importing this module does not load the SDK's 830 modules of models and API groups, which would take a third of the
program's memory and start-up time: importing any part of a package first runs the package's `__init__`, and the ones of
these three packages import everything. The packages still load all of it when another name is used. If the SDK was
imported before, it is used unchanged.
"""

import importlib
import sys
from importlib.machinery import PathFinder
from importlib.metadata import version
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any

SDK = "kubernetes_asyncio"
# Names that the SDK's modules import from the package instead of their own module, in order of definition.
EXPORTS = (("configuration", "Configuration"), ("api_client", "ApiClient"))


def _defer_models() -> None:
    root = _deferred(SDK, None)
    root.client = client = _deferred(f"{SDK}.client", root)
    client.models = _deferred(f"{SDK}.client.models", client)
    for module, name in EXPORTS:
        setattr(client, name, getattr(importlib.import_module(f"{SDK}.client.{module}"), name))


def _deferred(name: str, parent: ModuleType | None) -> Any:
    """A package whose `__init__` runs when a name is used that is neither an attribute nor a submodule."""
    spec = PathFinder.find_spec(name, parent.__path__ if parent is not None else None)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    package, initialize = module_from_spec(spec), spec.loader.exec_module

    def load(attribute: str) -> Any:
        if attribute == "__version__":  # modules that `__init__` imports need it before `__init__` sets it
            return version(SDK)
        if PathFinder.find_spec(f"{name}.{attribute}", package.__path__) is not None:
            return importlib.import_module(f"{name}.{attribute}")
        vars(package).pop("__getattr__", None)
        initialize(package)
        return getattr(package, attribute)

    vars(package)["__getattr__"] = load
    sys.modules[name] = package
    return package


if SDK not in sys.modules:
    _defer_models()

# ruff: noqa: E402 - after the packages are deferred
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
