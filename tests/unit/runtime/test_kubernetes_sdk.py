"""kubernetes_asyncio is imported in part: the rest costs nothing and is loaded on use."""

import subprocess
import sys


def run(program: str) -> str:
    """The output of a new interpreter; warnings are errors."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_program_loads_no_model_and_no_api_group() -> None:
    """Everything that `run` imports, the configuration loaders included, loads none of the 830 modules."""
    found = run(
        "import sys, provisioner.operator.operator, provisioner.operator.clients\n"
        "parts = ('kubernetes_asyncio.client.models.', 'kubernetes_asyncio.client.api.')\n"
        "print([name for name in sys.modules if name.startswith(parts)])"
    )
    assert found == "[]"


def test_modules_that_are_left_out_can_be_imported() -> None:
    """Other code in the process gets the whole SDK, with the same classes."""
    found = run(
        "from provisioner.runtime.kubernetes_sdk import ApiClient\n"
        "import kubernetes_asyncio.dynamic\n"
        "from kubernetes_asyncio import client, config, watch\n"
        "from kubernetes_asyncio.client import CoreV1Api\n"
        "assert client.ApiClient is ApiClient\n"
        "print(CoreV1Api.__name__, client.V1Node.__name__, client.models.V1Pod.__name__, watch.Watch.__name__)"
    )
    assert found == "CoreV1Api V1Node V1Pod Watch"


def test_an_sdk_that_was_imported_before_is_used() -> None:
    """An SDK that was imported before is used unchanged."""
    found = run(
        "import kubernetes_asyncio.client as before\n"
        "from provisioner.runtime.kubernetes_sdk import ApiClient\n"
        "print(before.ApiClient is ApiClient)"
    )
    assert found == "True"
