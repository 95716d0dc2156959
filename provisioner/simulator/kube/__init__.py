"""A simulated Kubernetes API server: `store.Store` keeps the objects, `apiserver.ApiServer` serves HTTP."""
