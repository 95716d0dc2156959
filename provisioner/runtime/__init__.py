"""A controller runtime that knows no NodeClaim rules and no cloud."""
