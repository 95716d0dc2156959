"""The gate before each deletion of a NodeClaim or an agent pool."""
