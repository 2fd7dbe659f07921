"""Reports the progress of warm-ups. A normalizer never uses averages if training ends before its warm-up is over."""
from __future__ import annotations

from typing import NamedTuple

from torch import nn

from .channel_norm import ChannelNorm


class WarmUp(NamedTuple):
    name: str  # name of the normalizer in the module
    iterations: int  # iterations so far
    first_average: int  # first iteration that uses averages

    @property
    def over(self) -> bool:
        return self.iterations >= self.first_average


def warm_up_report(module: nn.Module) -> list[WarmUp]:
    """Returns the progress of each normalizer. On a GPU, waits for each normalizer's counter."""
    return [WarmUp(name, int(norm.iters), norm.first_average) for name, norm in module.named_modules()
            if isinstance(norm, ChannelNorm)]
