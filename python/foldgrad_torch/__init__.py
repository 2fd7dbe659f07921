"""Unified Normalization for PyTorch, trained and then folded into the next linear layers: see docs/pytorch.md."""
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
