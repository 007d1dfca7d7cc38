"""Incremental discovery in newest-first listings: a library of its own (design 6).

It imports no engine and nothing else of this project. The names below are its API.
"""

from .ids import sanitize_content_id
from .protocols import (
    BatchContext,
    DiscoveryContext,
    DiscoveryHost,
    DiscoveryJob,
    Frontier,
    FrontierContext,
    MarkContext,
    MissingContext,
    ReasonedMarkContext,
    ReportContext,
    ScanDebtContext,
)
from .registration import RERUN_POLICIES, register_discovery
from .report import Declined, Page, ScanEnd, ScanReport
from .scanner import DiscoveryHandler

__all__ = [
    "RERUN_POLICIES",
    "BatchContext",
    "Declined",
    "DiscoveryContext",
    "DiscoveryHandler",
    "DiscoveryHost",
    "DiscoveryJob",
    "Frontier",
    "FrontierContext",
    "MarkContext",
    "MissingContext",
    "Page",
    "ReasonedMarkContext",
    "ReportContext",
    "ScanDebtContext",
    "ScanEnd",
    "ScanReport",
    "register_discovery",
    "sanitize_content_id",
]
