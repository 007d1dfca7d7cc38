"""The contract as plain Python tables, written by tools.compile. Never edited by hand."""
