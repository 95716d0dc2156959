"""An embedded Kubernetes API server: `store.Store` remembers, `apiserver.ApiServer` speaks HTTP for it."""
