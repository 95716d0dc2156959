"""The only writes in the program: a thin shell around the pure plan."""
