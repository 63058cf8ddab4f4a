"""Self-contained HTML reports."""

__all__ = ["Examination", "Report", "build_report", "examine", "write_report"]

from driftbayes.report._examination import Examination, examine
from driftbayes.report._page import Report, build_report, write_report
