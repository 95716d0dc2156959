"""Azure as the rules see it: its sizes, names, labels and limits, without a request."""

from collections.abc import Collection, Mapping

from cloudprovider.cloud import OfNodeClass
from provisioner.api import aks_names, labels
from provisioner.api.nodeclass import NodeClassSpec
from provisioner.api.requirements import of_expected

from . import (
    agentpool,
    catalogue,
    class_properties,
    error_table,
    gpu_products,
    instance_types,
    machine_labels,
    node_resources,
    offerings,
    pricing,
    quota,
    regions,
    size_names,
    skus,
)


class AksCloud:
    """The implementation of `Cloud`; the tables are those of the modules of this package."""

    instance_label = labels.AKS_AGENTPOOL
    size_labels = frozenset({labels.INSTANCE_TYPE, offerings.SKU_NAME})
    gpu_model_label = machine_labels.GPU_NAME

    failure_reasons = error_table.REASONS

    default_region = regions.DEFAULT
    known_regions = staticmethod(pricing.regions)
    known_sizes = staticmethod(pricing.known_sizes)
    region_of = staticmethod(regions.region_of)
    pool_name = staticmethod(agentpool.pool_name)
    pool_of = staticmethod(aks_names.pool_of)
    resource_group_of = staticmethod(aks_names.resource_group_of)
    is_known_size = staticmethod(pricing.is_known_size)
    nearest_size = staticmethod(size_names.nearest_size)
    canonical_name = staticmethod(pricing.canonical_name)
    gpus_of = staticmethod(instance_types.gpus_of)
    device_templates = staticmethod(gpu_products.device_templates)
    instance_types = staticmethod(catalogue.instance_types)
    cluster_facts = staticmethod(machine_labels.cluster_facts)
    contradicts = staticmethod(class_properties.contradicts)
    allowed_offerings = staticmethod(offerings.allowed_offerings)
    by_price = staticmethod(pricing.by_price)
    list_prices = staticmethod(pricing.list_prices)
    excluded = staticmethod(skus.excluded)
    quota_of = staticmethod(quota.quota_of)
    quotas_left = staticmethod(quota.quotas_left)

    @staticmethod
    def of_node_class(
        capacity: Mapping[str, int], allocatable: Mapping[str, int], known: Collection[str], settings: NodeClassSpec
    ) -> OfNodeClass:
        changed, left = node_resources.of_node_class(capacity, allocatable, settings)
        return OfNodeClass(
            capacity=changed,
            allocatable=left,
            requirements=of_expected(machine_labels.labels_of_node_class(known, settings)),
        )
