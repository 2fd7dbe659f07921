"""Recomputes the statistics of a model whose weights have changed since training, for example because they were
averaged, or whose statistics were never collected."""
from __future__ import annotations

from typing import Any, Callable, Iterable

import torch
from torch import Tensor, nn

from .channel_norm import ChannelNorm


@torch.no_grad()
def calibrate(module: nn.Module, batches: Iterable, forward: Callable[[nn.Module, Any], Any] | None = None) -> int:
    """Recomputes run_var of every UN, MABN and PNStar as the mean over the batches. Returns the number of batches.

    The normalizers run in training mode and everything else in evaluation mode, so there is no dropout. A batch is a
    tensor, a list or tuple whose first element is the input, or a dict of keyword arguments. For other batches, or to
    use real_tokens(), pass forward(module, batch). Parameters, other buffers, counters and the modules' modes are
    unchanged afterwards. Raises ValueError if there is no batch or no normalizer.
    """
    norms = [norm for norm in module.modules() if isinstance(norm, ChannelNorm)]
    modes = {part: part.training for part in module.modules()}
    before = [(norm, norm.alpha, {name: b.clone() for name, b in norm.named_buffers() if name != "run_var"})
              for norm in norms]
    if not norms:
        raise ValueError(f"calibrate: {type(module).__name__} has no UN, MABN or PNStar")
    count = 0
    try:
        for part in module.modules():
            part.training = part in norms
        for norm in norms:
            norm.calibrating = True
        for count, batch in enumerate(batches, 1):
            for norm in norms:
                norm.alpha = 1 - 1 / count
            (forward or run)(module, batch)
    finally:
        for part, mode in modes.items():
            part.training = mode
        for norm, alpha, buffers in before:
            norm.alpha, norm.calibrating = alpha, False
            for name, value in buffers.items():
                getattr(norm, name).copy_(value)
            norm.note_state()
    if not count:
        raise ValueError("calibrate: there is no batch")
    return count


def run(module: nn.Module, batch: Any) -> Any:
    if isinstance(batch, dict):
        return module(**batch)
    return module(batch if isinstance(batch, Tensor) else batch[0])
