"""Unified Normalization (Yang et al., "Unified Normalization for Accelerating and Stabilizing Transformers", 2022)."""
from __future__ import annotations

import torch
from torch import Tensor

from .channel_norm import ChannelNorm
from .normalize import Iteration


LONGEST_HOLD = 32  # iterations


class UN(ChannelNorm):
    """y = weight x / sqrt(var_hat + eps) + bias, var_hat the geometric mean of the last `window` mean squares [UN-16].

    Until iteration max(warmup, window + 1), and at outliers, var_hat is the batch's own mean square. The gradient is
    exact until then, an estimate by design after it. At inference var_hat is the running average run_var.

    width: C. warmup: iterations, half of a short training's; 4,000 are 4 % of the paper's. alpha: weight of the old value
    in running averages. filtration: look for outliers [UN-19] and skip their iterations, in the channels that
    `granularity` says: pooled, layer_any, channel or layer_sum. ddof: of the variance in that test. flag_low: falls are
    outliers too. hold_on_skip: outliers, 32 of them in a row at most, stay out of run_var as well. bias: as in
    nn.LayerNorm. dim: the axis of the channels.

    It is foldgrad's `un` of mode paper; docs/normalizers.md has all options and what the released code does otherwise.
    """
    granularities = ("pooled", "layer_any", "channel", "layer_sum")

    def __init__(self, width: int, window: int = 4, warmup: int = 4000, alpha: float = 0.9, eps: float = 1e-5,
                 filtration: bool = False, granularity: str = "pooled", ddof: int = 1, flag_low: bool = True,
                 hold_on_skip: bool = False, bias: bool = True, dim: int = -1, device=None, dtype=None):
        if window < 1 or ddof not in (0, 1):
            raise ValueError(f"UN: window {window} must be at least 1, ddof {ddof} 0 or 1")
        if granularity not in self.granularities:
            raise ValueError(f"UN: granularity must be one of {', '.join(self.granularities)}, got {granularity}")
        super().__init__(width, warmup, alpha, eps, bias, dim,
                         {"psi_ema": (), "win_sq": (window,), "win_g": (window,)}, device, dtype)
        if hold_on_skip:
            self.register_buffer("skips_in_a_row", torch.zeros(width, dtype=torch.int64, device=device))
        self.window, self.filtration, self.granularity = window, filtration, granularity
        self.ddof, self.flag_low, self.hold_on_skip = ddof, flag_low, hold_on_skip

    @property
    def first_average(self) -> int:
        return max(self.warmup, self.window + 1)

    def active(self, t: Tensor) -> Tensor:
        return super().active(t) & (self.window > 1)

    def forward_statistic(self, q: Tensor, t: Tensor, held: Tensor):
        row, active = (t % self.window)[None], self.active(t)
        filters = self.filtration and self.window > 1
        skip = active & self.outliers(row, q, held) if filters else torch.zeros_like(held)
        average = geometric_mean(self.win_sq.index_copy(0, row, q[None]))
        var_hat = torch.where(active & ~skip, average, q)  # [UN-16]
        recorded = torch.where(skip, self.run_var, q)  # [CN-5]
        run_var = self.alpha * self.run_var + (1 - self.alpha) * var_hat  # [CN-6]
        new = {"win_sq": self.win_sq.index_copy(0, row, recorded[None]), "run_var": run_var}
        if self.hold_on_skip:
            in_a_row = torch.where(skip, self.skips_in_a_row + 1, 0)
            held_back = skip & (in_a_row <= LONGEST_HOLD)
            new |= {"run_var": torch.where(held_back, self.run_var, run_var), "skips_in_a_row": in_a_row}
        return var_hat, skip, new

    def backward_statistic(self, G: Tensor, past: Iteration):
        row = (past.t % self.window)[None]
        average = self.win_g.index_copy(0, row, G[None]).mean(0)
        m = torch.where((past.t >= self.first_average) & ~past.skip, average, G)
        psi_ema = self.alpha * self.psi_ema + (1 - self.alpha) * m  # [UN-17]
        psi = torch.where(self.active(past.t) & ~past.skip, psi_ema, G)
        recorded = torch.where(past.skip, self.psi_ema, G)  # [CN-5]
        return psi, {"win_g": self.win_g.index_copy(0, row, recorded[None]), "psi_ema": psi_ema}

    def psi_when_held(self) -> Tensor:
        return self.psi_ema

    def outliers(self, row: Tensor, q: Tensor, held: Tensor) -> Tensor:
        """Returns bool [C], where AM - GM of the window with q exceeds M V(sqrt) of the window before [UN-19].

        The tolerance is for rounding, which alone gives AM > GM where all entries are equal and V is 0."""
        window, M = self.win_sq, self.window
        tolerance = 1e-9 if window.dtype == torch.float64 else 4e-6
        with_q = window.index_copy(0, row, q[None])
        mean = with_q.mean(0)
        distance = mean - geometric_mean(with_q)
        roots = window.sqrt()
        threshold = M * (torch.var(roots, correction=self.ddof) if self.granularity == "pooled"
                         else torch.var(roots, 0, correction=self.ddof))
        takes_part = ~held
        if not self.flag_low:
            takes_part = takes_part & (q > window.index_select(0, row)[0])
        if self.granularity == "layer_sum":
            distance, threshold, mean = (torch.where(takes_part, v, 0).sum() for v in (distance, threshold, mean))
            return (distance > (1 + tolerance) * threshold + tolerance * mean) & ~held
        outlier = takes_part & (distance - tolerance * mean > (1 + tolerance) * threshold)
        return (outlier if self.granularity == "channel" else outlier.any()) & ~held

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, window={self.window}"


def geometric_mean(window: Tensor) -> Tensor:
    """Returns [C] of [M, C]. Entries are at least 1e-38, so that no logarithm of 0 is taken."""
    return window.clamp_min(1e-38).log().mean(0).exp()
