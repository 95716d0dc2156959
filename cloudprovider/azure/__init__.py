"""AKS agent pools over ARM: the only place that imports the Azure SDK."""
