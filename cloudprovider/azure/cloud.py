"""Azure as the rules see it: its sizes, names, labels and limits, without a request."""

from collections.abc import Collection, Mapping

from cloudprovider.cloud import OfNodeClass
from provisioner.api import labels
from provisioner.api.nodeclass import NodeClassSpec

from . import catalogue, class_properties, cluster_facts, gpu_products, instance_types, machine_labels, pricing
from .node_resources import of_node_class
from .offerings import SKU_NAME


class AksCloud:
    """The implementation of `Cloud`; the tables are those of the modules of this package."""

    size_labels = frozenset({labels.INSTANCE_TYPE, SKU_NAME})
    gpu_model_label = machine_labels.GPU_NAME

    canonical_name = staticmethod(pricing.canonical_name)
    gpus_of = staticmethod(instance_types.gpus_of)
    device_templates = staticmethod(gpu_products.device_templates)
    instance_types = staticmethod(catalogue.instance_types)
    cluster_facts = staticmethod(cluster_facts.cluster_facts)
    contradicts = staticmethod(class_properties.contradicts)

    @staticmethod
    def of_node_class(
        capacity: Mapping[str, int], allocatable: Mapping[str, int], known: Collection[str], settings: NodeClassSpec
    ) -> OfNodeClass:
        changed, left = of_node_class(capacity, allocatable, settings)
        return OfNodeClass(
            capacity=changed, allocatable=left, labels=machine_labels.labels_of_node_class(known, settings)
        )
