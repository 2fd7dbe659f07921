"""The progress of normalizers in their warm-up: a shorter training never averages, and trains something else."""
from __future__ import annotations

from typing import NamedTuple

from torch import nn

from .channel_norm import ChannelNorm


class WarmUp(NamedTuple):
    name: str  # in the module
    iterations: int  # so far
    first_average: int  # the first iteration that averages

    @property
    def over(self) -> bool:
        return self.iterations >= self.first_average


def warm_up_report(module: nn.Module) -> list[WarmUp]:
    """Returns how far each normalizer of the module is. Reads their counters: waits for a GPU once per normalizer."""
    return [WarmUp(name, int(norm.iters), norm.first_average) for name, norm in module.named_modules()
            if isinstance(norm, ChannelNorm)]
