"""aks-gpu-provisioner: the program around the rules."""
