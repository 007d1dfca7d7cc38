"""Mutation of the contract: every row changed one at a time, and what notices it (design 7)."""
