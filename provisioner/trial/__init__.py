"""`gpu-provisioner try`: the real controller against an embedded cluster and an embedded Azure, for people to watch."""
