"""What the rules may ask of a cloud, and the one cloud there is."""
