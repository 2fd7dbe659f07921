"""Padding masks for normalizers deep in a model whose forward passes do not pass a mask on."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator

from torch import Tensor, nn

from .channel_norm import ChannelNorm


@contextmanager
def real_tokens(module: nn.Module, mask: Tensor) -> Iterator[None]:
    """Makes all normalizers of the module leave padding out of their statistics. The mask is True at real tokens and
    shaped as x without its channels, mostly [B, T]. Raises ValueError for a module without normalizers."""
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
