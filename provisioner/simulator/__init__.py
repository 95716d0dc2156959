"""A simulated cluster and a simulated Azure, for `gpu-provisioner try` and most tests."""
