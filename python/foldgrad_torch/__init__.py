"""Unified Normalization for PyTorch. After training, fold() merges the normalizers into the linear layers next to them
(docs/pytorch.md)."""
from .calibrate import calibrate
from .channel_norm import WarmUpWarning
from .fold import fold
from .relatives import MABN, PNStar
from .replace import replace_norms
from .report import Report
from .tokens import real_tokens
from .un import UN
from .warm_up import WarmUp, warm_up_report

__all__ = ["MABN", "PNStar", "Report", "UN", "WarmUp", "WarmUpWarning", "calibrate", "fold", "real_tokens",
           "replace_norms", "warm_up_report"]
