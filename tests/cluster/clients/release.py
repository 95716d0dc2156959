"""The Helm release of these tests, and the values of its chart."""

from typing import Any

from tests.cluster.charts import CHARTS, IMAGE
from tests.cluster.realworld import RealWorld

Json = dict[str, Any]
CHART = CHARTS / "gpu-provisioner"
RELEASE = "gpu-provisioner"


def chart_values(world: RealWorld) -> Json:
    """The values of an installation for the emulated cluster."""
    azure = world.cloud.settings
    named = {"resourceGroup": azure.resource_group, "clusterName": azure.cluster, "location": azure.location}
    return {"azure": {"subscriptionId": azure.subscription, **named}, "controller": IMAGE}
