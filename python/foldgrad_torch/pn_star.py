"""PN*: PowerNorm (Shen et al., 2020) with plain exponential averages, as the UN paper describes it."""
from __future__ import annotations

import torch
from torch import Tensor

from .channel_norm import ChannelNorm
from .normalize import Iteration


class PNStar(ChannelNorm):
    """y = weight x / sqrt(var_hat + eps) + bias, var_hat = alpha run_var + (1 - alpha) mean square [UN-14].

    In backward psi = psi_ema, the same average of gradient statistics [UN-17]. Before iteration `warmup` both are the
    batch's own. It is foldgrad's `pn_star` of mode paper; options are those of UN.
    """

    def __init__(self, width: int, warmup: int = 10000, alpha: float = 0.9, eps: float = 1e-5, bias: bool = True,
                 dim: int = -1, device=None, dtype=None):
        super().__init__(width, warmup, alpha, eps, bias, dim, {"psi_ema": ()}, device, dtype)

    def forward_statistic(self, q: Tensor, t: Tensor, held: Tensor):
        average = self.alpha * self.run_var + (1 - self.alpha) * q
        return torch.where(self.active(t), average, q), torch.zeros_like(held), {"run_var": average}  # [UN-14]

    def backward_statistic(self, G: Tensor, past: Iteration):
        psi_ema = self.alpha * self.psi_ema + (1 - self.alpha) * G  # [UN-17] with a window of 1
        return torch.where(self.active(past.t), psi_ema, G), {"psi_ema": psi_ema}

    def psi_when_held(self) -> Tensor:
        return self.psi_ema
