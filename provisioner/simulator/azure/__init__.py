"""A simulated ARM with one AKS cluster: `AzureCloud` is the state and its time, `make_arm_app` its HTTP."""
