"""Gives a padding mask to normalizers deep in a model whose modules do not pass on a mask."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator

from torch import Tensor, nn

from .channel_norm import ChannelNorm


@contextmanager
def real_tokens(module: nn.Module, mask: Tensor) -> Iterator[None]:
    """Returns a context in which the module's normalizers exclude padding from their statistics. The mask is True at
    real tokens and has the shape of x without the channel axis, usually [B, T]. Raises ValueError if the module has no
    UN, MABN or PNStar."""
    norms = [norm for norm in module.modules() if isinstance(norm, ChannelNorm)]
    if not norms:
        raise ValueError(f"real_tokens: {type(module).__name__} has no UN, MABN or PNStar")
    before = [norm.mask for norm in norms]
    for norm in norms:
        norm.mask = mask
    try:
        yield
    finally:
        for norm, old in zip(norms, before):
            norm.mask = old
