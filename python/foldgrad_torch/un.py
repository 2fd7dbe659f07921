"""Unified Normalization (Yang et al., "Unified Normalization for Accelerating and Stabilizing Transformers", 2022)."""
from __future__ import annotations

from typing import Mapping

import torch
from torch import Tensor

from .channel_norm import ChannelNorm
from .normalize import Iteration, choose, with_row


LONGEST_HOLD = 32  # iterations


class UN(ChannelNorm):
    """Computes y = weight * x / sqrt(var_hat + eps) + bias, where var_hat is the geometric mean of the last `window`
    mean squares [UN-16].

    Before iteration max(warmup, window + 1), and at outliers, var_hat is the batch's own mean square. Before that
    iteration, the gradient is exact; afterwards it is an estimate by design. At inference, var_hat is the running
    average run_var.

    `width` is C. `warmup` is a number of iterations. For a short training, choose half of its iterations; the default
    of 4,000 is 4 % of the paper's training. `alpha` is the weight of the old value in running averages. With
    `filtration`, iterations with outliers [UN-19] are skipped, in the channels that `granularity` selects: pooled,
    layer_any, channel or layer_sum. `ddof` is subtracted from the count in the variance of the outlier test. With
    `flag_low`, sudden drops are outliers too. With `hold_on_skip`, up to 32 consecutive outliers do not enter run_var
    either. `bias` is as in nn.LayerNorm. `dim` is the channel axis. Statistics are over all processes of
    `process_group`, such as torch.distributed.group.WORLD; if it is None, each process has separate statistics.

    This is foldgrad's `un` with mode = paper. docs/normalizers.md describes all options and how the released code
    differs.
    """
    granularities = ("pooled", "layer_any", "channel", "layer_sum")

    def __init__(self, width: int, window: int = 4, warmup: int = 4000, alpha: float = 0.9, eps: float = 1e-5,
                 filtration: bool = False, granularity: str = "pooled", ddof: int = 1, flag_low: bool = True,
                 hold_on_skip: bool = False, bias: bool = True, dim: int = -1, device=None, dtype=None,
                 process_group=None):
        if window < 1 or ddof not in (0, 1):
            raise ValueError(f"UN: window must be at least 1 and ddof 0 or 1, got {window} and {ddof}")
        if granularity not in self.granularities:
            raise ValueError(f"UN: granularity must be one of {', '.join(self.granularities)}, got {granularity}")
        super().__init__(width, warmup, alpha, eps, bias, dim,
                         {"psi_ema": (), "win_sq": (window,), "win_g": (window,)}, device, dtype, process_group)
        if hold_on_skip:
            self.register_buffer("skips_in_a_row", torch.zeros(width, dtype=torch.int64, device=device))
        self.window, self.filtration, self.granularity = window, filtration, granularity
        self.ddof, self.flag_low, self.hold_on_skip = ddof, flag_low, hold_on_skip

    @property
    def first_average(self) -> int:
        return max(self.warmup, self.window + 1)

    def active(self, t: Tensor | int) -> Tensor | bool:
        return super().active(t) & (self.window > 1)

    def forward_statistic(self, q: Tensor, t: Tensor | int, active: Tensor | bool, held: Tensor | bool,
                          state: Mapping[str, Tensor]):
        row, window, run_var = t % self.window, state["win_sq"], state["run_var"]
        with_q = recorded = with_row(window, row, q)
        average, skip, averages = geometric_mean(with_q), held, active
        if self.filtration and self.window > 1:
            outliers = active & self.outliers(window, with_q, average, held)
            recorded = with_row(window, row, torch.where(outliers, run_var, q))  # [CN-5]
            skip, averages = held | outliers, active & ~outliers
        var_hat = choose(averages, average, q)  # [UN-16]
        new = {"win_sq": recorded, "run_var": torch.lerp(var_hat, run_var, self.alpha)}  # [CN-6]
        if self.hold_on_skip:
            in_a_row = (state["skips_in_a_row"] + 1) * skip
            held_back = skip & (in_a_row <= LONGEST_HOLD)
            new |= {"run_var": torch.where(held_back, run_var, new["run_var"]), "skips_in_a_row": in_a_row}
        return var_hat, skip, new

    def backward_statistic(self, G: Tensor, past: Iteration, state: Mapping[str, Tensor]):
        row, window, psi_ema = past.t % self.window, state["win_g"], state["psi_ema"]
        with_G = recorded = with_row(window, row, G)
        averages = past.t >= self.first_average
        if self.filtration:
            averages = choose(past.skip, False, averages)
            recorded = with_row(window, row, choose(past.skip, psi_ema, G))  # [CN-5]
        new_ema = torch.lerp(choose(averages, with_G.mean(0), G), psi_ema, self.alpha)  # [UN-17]
        psi = choose(averages, new_ema, G) if self.window > 1 else G
        return psi, {"win_g": recorded, "psi_ema": new_ema}

    def psi_when_held(self, state: Mapping[str, Tensor]) -> Tensor:
        return state["psi_ema"]

    def outliers(self, window: Tensor, with_q: Tensor, average: Tensor, held: Tensor | bool) -> Tensor:
        """Returns bool [C], or bool [] for all channels together. It is True if the arithmetic mean of the window with
        q exceeds the geometric mean, `average`, by more than M times the variance of the square roots in the old
        window [UN-19].

        The tolerance absorbs rounding: the means of equal entries differ only by rounding, and the variance is 0."""
        tolerance = 1e-9 if window.dtype == torch.float64 else 4e-6
        mean = with_q.mean(0)
        distance, roots = mean - average, window.sqrt()
        threshold = self.window * (torch.var(roots, correction=self.ddof) if self.granularity == "pooled"
                                   else torch.var(roots, 0, correction=self.ddof))
        takes_part = choose(held, False, True)
        if not self.flag_low:
            takes_part = takes_part & (with_q > window).any(0)  # the two windows differ in one row
        if self.granularity == "layer_sum":
            distance, threshold, mean = (choose(takes_part, v, 0).sum() for v in (distance, threshold, mean))
            return distance > (1 + tolerance) * threshold + tolerance * mean
        outlier = takes_part & (distance - tolerance * mean > (1 + tolerance) * threshold)
        return outlier if self.granularity == "channel" else outlier.any()

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, window={self.window}"


def geometric_mean(window: Tensor) -> Tensor:
    """Returns the geometric mean [C] of the rows [M, C]. Entries below 1e-38 count as 1e-38, which avoids log(0)."""
    return window.clamp_min(1e-38).log_().mean(0).exp_()
