"""Who may read the metrics, by a real API server: with the rights of our chart, for tokens of service accounts."""

from pathlib import Path

import pytest

from provisioner.runtime.connection import build_api_client
from provisioner.runtime.kube import Kube
from provisioner.runtime.metrics_access import FORBIDDEN, OK, UNAUTHENTICATED, MetricsAccess
from tests.cluster import assets
from tests.cluster.controlplane import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio]

MONITORING = "monitoring"
ACCOUNTS = f"/api/v1/namespaces/{MONITORING}/serviceaccounts"


async def test_only_bound_service_accounts_read_the_metrics(tmp_path: Path) -> None:
    """The one that the values name may; another service account is forbidden, an invalid token is not authenticated."""
    async with ControlPlane.start(assets.find(), tmp_path) as cp:
        await cp.install_chart_rbac(values={"metrics": {"readers": [{"name": "prometheus", "namespace": MONITORING}]}})
        await cp.demand("POST", "/api/v1/namespaces", {"metadata": {"name": MONITORING}})
        for name in ("prometheus", "tenant"):
            await cp.demand("POST", ACCOUNTS, {"metadata": {"name": name}})
        tokens = {name: await cp.service_account_token(name, MONITORING) for name in ("prometheus", "tenant")}
        config = cp.kubeconfig(tmp_path / "controller", "controller")
        connection = await build_api_client(str(config), version="test")
        try:
            access = MetricsAccess(Kube(connection.api_client))
            assert await access(f"Bearer {tokens['prometheus']}") == OK
            assert await access(f"Bearer {tokens['tenant']}") == FORBIDDEN
            assert await access(f"Bearer {tokens['tenant'][:-4]}aaaa") == UNAUTHENTICATED
        finally:
            await connection.close()
