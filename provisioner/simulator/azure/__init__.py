"""A simulated ARM with one AKS cluster: `AzureCloud` holds the state and its timers, `make_arm_app` serves HTTP."""
