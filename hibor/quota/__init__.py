"""The quota ledger: what was reserved and spent, in a file that cannot be changed unnoticed (design 4)."""
