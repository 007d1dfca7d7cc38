"""The collector: everything that touches the phone, the disk, the ledger and people."""

__version__ = "0.1.0"
