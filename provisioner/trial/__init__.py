"""`gpu-provisioner try`: runs the controller against a simulated cluster and a simulated Azure, and shows progress."""
