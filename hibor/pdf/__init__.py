"""The PDF check (design 5 "PDF check"): is this file the whole, readable report?

Rules of this package:

* The PDF library runs in a worker process and nowhere else; importing this package does not load it.
* `check_pdf` never raises for a bad file: whatever is wrong with it is a finding of the report.
* Nothing here writes, moves or removes a file.
"""

from hibor.pdf.check import check_pdf, check_pdf_with, page1_png, shut_down, warm_up
from hibor.pdf.pool import PdfWorkerUnavailable, Pool
from hibor.pdf.report import PdfReport

__all__ = [
    "PdfReport",
    "PdfWorkerUnavailable",
    "Pool",
    "check_pdf",
    "check_pdf_with",
    "page1_png",
    "shut_down",
    "warm_up",
]
