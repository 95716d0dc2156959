"""What makes files of this repository from its code; never part of what is installed."""
