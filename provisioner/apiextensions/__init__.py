"""Validation of custom resources against the schema of their CRD, as the API server performs it."""
