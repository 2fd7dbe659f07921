"""MABN and PN* as the UN paper describes them. Unlike UN, they use exponential averages in the forward pass."""
from __future__ import annotations

from typing import Mapping

import torch
from torch import Tensor

from .channel_norm import ChannelNorm
from .normalize import Iteration, choose, with_row


class Exponential(ChannelNorm):
    """Computes y = weight * x / sqrt(var_hat + eps) + bias, where var_hat = alpha * run_var + (1 - alpha) * q [UN-14]
    and q is the batch's mean square. Before iteration `warmup`, var_hat = q."""

    def forward_statistic(self, q: Tensor, t: Tensor | int, active: Tensor | bool, held: Tensor | bool,
                          state: Mapping[str, Tensor]):
        average = torch.lerp(q, state["run_var"], self.alpha)
        return choose(active, average, q), held, {"run_var": average}  # [UN-14]


class MABN(Exponential):
    """Moving Average Batch Normalization (Yan et al., 2020).

    In the backward pass, psi is the arithmetic mean of the last `window` gradient statistics, or the batch's own
    statistic before iteration max(warmup, window + 1). This is foldgrad's `mabn` with mode = paper. UN describes the
    options.
    """

    def __init__(self, width: int, window: int = 4, warmup: int = 100, alpha: float = 0.98, eps: float = 1e-5,
                 bias: bool = True, dim: int = -1, device=None, dtype=None, process_group=None):
        if window < 1:
            raise ValueError(f"MABN: window must be at least 1, got {window}")
        super().__init__(width, warmup, alpha, eps, bias, dim, {"win_g": (window,)}, device, dtype, process_group)
        self.window = window

    def backward_statistic(self, G: Tensor, past: Iteration, state: Mapping[str, Tensor]):
        win_g = with_row(state["win_g"], past.t % self.window, G)
        return choose((past.t > self.window) & past.active, win_g.mean(0), G), {"win_g": win_g}

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, window={self.window}"


class PNStar(Exponential):
    """PN*, the UN paper's variant of PowerNorm (Shen et al., 2020).

    In the backward pass, psi is psi_ema, the exponential average of the gradient statistics [UN-17], or the batch's own
    statistic before iteration `warmup`. This is foldgrad's `pn_star` with mode = paper. UN describes the options.
    """

    def __init__(self, width: int, warmup: int = 10000, alpha: float = 0.9, eps: float = 1e-5, bias: bool = True,
                 dim: int = -1, device=None, dtype=None, process_group=None):
        super().__init__(width, warmup, alpha, eps, bias, dim, {"psi_ema": ()}, device, dtype, process_group)

    def backward_statistic(self, G: Tensor, past: Iteration, state: Mapping[str, Tensor]):
        psi_ema = torch.lerp(G, state["psi_ema"], self.alpha)  # [UN-17] with a window of 1
        return choose(past.active, psi_ema, G), {"psi_ema": psi_ema}

    def psi_when_held(self, state: Mapping[str, Tensor]) -> Tensor:
        return state["psi_ema"]
