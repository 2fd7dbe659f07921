"""Moving Average Batch Normalization (Yan et al., 2020), as the UN paper describes it."""
from __future__ import annotations

import torch
from torch import Tensor

from .channel_norm import ChannelNorm
from .normalize import Iteration


class MABN(ChannelNorm):
    """y = weight x / sqrt(var_hat + eps) + bias, var_hat = alpha run_var + (1 - alpha) mean square [UN-14].

    In backward psi is the arithmetic mean of the last `window` gradient statistics. Before iteration `warmup` both are
    the batch's own. It is foldgrad's `mabn` of mode paper; options are those of UN.
    """

    def __init__(self, width: int, window: int = 4, warmup: int = 100, alpha: float = 0.98, eps: float = 1e-5,
                 bias: bool = True, dim: int = -1, device=None, dtype=None):
        if window < 1:
            raise ValueError(f"MABN: window must be at least 1, got {window}")
        super().__init__(width, warmup, alpha, eps, bias, dim, {"win_g": (window,)}, device, dtype)
        self.window = window

    def forward_statistic(self, q: Tensor, t: Tensor, held: Tensor):
        average = self.alpha * self.run_var + (1 - self.alpha) * q
        return torch.where(self.active(t), average, q), torch.zeros_like(held), {"run_var": average}  # [UN-14]

    def backward_statistic(self, G: Tensor, past: Iteration):
        win_g = self.win_g.index_copy(0, (past.t % self.window)[None], G[None])
        return torch.where((past.t > self.window) & self.active(past.t), win_g.mean(0), G), {"win_g": win_g}

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, window={self.window}"
