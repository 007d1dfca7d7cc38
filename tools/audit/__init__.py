"""The audit gate: everything the contract says, enumerated and compared (design 7)."""
