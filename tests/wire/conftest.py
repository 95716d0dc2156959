"""Processes of slow tests: they start first, run beside the other tests, and are read last."""

import contextlib
import signal
from collections.abc import Iterator

import pytest

from .program import RunningProgram, environment, started

FAILING = ("capacity", "quota", "slow-gpu", "throttle")


@pytest.fixture(scope="session")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RunningProgram]]:
    """`try --once --fail …` for each scenario, at the default speed."""
    with contextlib.ExitStack() as until_the_end:
        yield {
            fail: until_the_end.enter_context(started(tmp_path_factory.mktemp(fail), "try", "--once", "--fail", fail))
            for fail in FAILING
        }


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningProgram]:
    """The process that `make demo` runs, with the controller's log."""
    with started(tmp_path_factory.mktemp("demo"), "try", "--once", "-v") as running:
        yield running


@pytest.fixture(scope="session")
def pods(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningProgram]:
    """The second process that `make demo` runs."""
    with started(tmp_path_factory.mktemp("pods"), "try", "--pods", "--once") as running:
        yield running


@pytest.fixture(scope="session")
def abandoned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningProgram]:
    """`run` as the leader of a cluster whose API server has been killed."""
    cluster, controller = tmp_path_factory.mktemp("cluster"), tmp_path_factory.mktemp("controller")
    kubeconfig = cluster / "kubeconfig"
    settings = {
        "ARM_SUBSCRIPTION_ID": "00000000-0000-0000-0000-000000000000",
        "ARM_RESOURCE_GROUP": "rg",
        "AZURE_CLUSTER_NAME": "aks",
        "ARM_ENDPOINT": "http://127.0.0.1:9",
        "LEADER_ELECTION_NAME": "abandoned",
        "LEADER_ELECTION_NAMESPACE": "kube-system",
        "METRICS_PORT": "0",
        "HEALTH_PROBE_PORT": "0",
        "KUBECONFIG": str(kubeconfig),
    }
    with started(cluster, "try", "--kubeconfig", str(kubeconfig)) as served:
        served.until("Ctrl-C stops")
        with started(controller, "run", env=environment(controller, **settings)) as running:
            running.until('"became leader"')
            served.end(signal.SIGKILL)
            yield running
