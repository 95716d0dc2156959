"""The nouns: frozen values of the Kubernetes API and the pure arithmetic on them; only stdlib and msgspec."""
