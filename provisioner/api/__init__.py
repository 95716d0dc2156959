"""Types of the Kubernetes API as frozen values, and pure functions on them. Imports only stdlib and msgspec."""
