"""The CloudProvider for AKS agent pools; only this package imports the Azure SDK."""
