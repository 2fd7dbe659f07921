"""The progress of normalizers in their warm-up: a training that ends before it never uses averages."""
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
    """Returns the progress of each normalizer. Reads their counters: waits for a GPU once per normalizer."""
    return [WarmUp(name, int(norm.iters), norm.first_average) for name, norm in module.named_modules()
            if isinstance(norm, ChannelNorm)]
