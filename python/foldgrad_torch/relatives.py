"""Relatives of UN with plain exponential averages in the forward pass, as the UN paper describes them."""
from __future__ import annotations

from typing import Mapping

import torch
from torch import Tensor

from .channel_norm import ChannelNorm
from .normalize import Iteration, choose, with_row


class Exponential(ChannelNorm):
    """y = weight x / sqrt(var_hat + eps) + bias, var_hat = alpha run_var + (1 - alpha) mean square [UN-14]; before
    iteration `warmup` the batch's own mean square."""

    def forward_statistic(self, q: Tensor, t: Tensor | int, active: Tensor | bool, held: Tensor | bool,
                          state: Mapping[str, Tensor]):
        average = torch.lerp(q, state["run_var"], self.alpha)
        return choose(active, average, q), held, {"run_var": average}  # [UN-14]


class MABN(Exponential):
    """Moving Average Batch Normalization (Yan et al., 2020).

    In backward psi is the arithmetic mean of the last `window` gradient statistics; before iteration `warmup` the
    batch's own. It is foldgrad's `mabn` of mode paper; options are those of UN.
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
    """PN*: PowerNorm (Shen et al., 2020).

    In backward psi = psi_ema, the same average of gradient statistics [UN-17]; before iteration `warmup` the batch's
    own. It is foldgrad's `pn_star` of mode paper; options are those of UN.
    """

    def __init__(self, width: int, warmup: int = 10000, alpha: float = 0.9, eps: float = 1e-5, bias: bool = True,
                 dim: int = -1, device=None, dtype=None, process_group=None):
        super().__init__(width, warmup, alpha, eps, bias, dim, {"psi_ema": ()}, device, dtype, process_group)

    def backward_statistic(self, G: Tensor, past: Iteration, state: Mapping[str, Tensor]):
        psi_ema = torch.lerp(G, state["psi_ema"], self.alpha)  # [UN-17] with a window of 1
        return choose(past.active, psi_ema, G), {"psi_ema": psi_ema}

    def psi_when_held(self, state: Mapping[str, Tensor]) -> Tensor:
        return state["psi_ema"]
