"""The part of the family's arithmetic that touches every element of x; what is per channel is in channel_norm.py."""
from __future__ import annotations

from typing import Callable, NamedTuple

import torch
from torch import Tensor


class Iteration(NamedTuple):
    """The decisions of a forward pass, by which its backward pass goes: other passes may come between them."""
    t: Tensor  # int64 []: the iteration, 1 being the first
    n: Tensor  # int64 []: real tokens
    root: Tensor  # [C]: sqrt(var_hat + eps)
    held: Tensor  # bool [C]: normalized by the running estimate, since the batch has no usable statistic
    skip: Tensor  # bool [C]: an outlier, normalized by its own statistic


def mean_square(x: Tensor, mask: Tensor, n: Tensor) -> Tensor:
    """Returns q = mean_S x^2 [CN-1] of x [P, C], in the dtype of statistics; mask [P, 1]: True at the n tokens of S."""
    return torch.where(mask, x, 0).square().sum(0) / n


class Normalize(torch.autograd.Function):
    """y = weight z + bias, z = x / root, in the dtype of x; inside it all is in that of root.

    Shapes: x [P, C]; weight and bias [C], bias or None; mask bool [P, 1]. In place of the gradient through root the
    backward pass has psi = gradient_statistic(G, iteration), which writes the normalizer's state. No value is read on
    the host, so a GPU need not wait.
    """

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor,
                gradient_statistic: Callable[[Tensor, Iteration], Tensor], *iteration: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight, mask, *iteration)
        ctx.gradient_statistic, ctx.has_bias = gradient_statistic, bias is not None
        y = x / Iteration(*iteration).root * weight
        return (y if bias is None else y + bias).to(x.dtype)

    @staticmethod
    def backward(ctx, dy: Tensor):
        if torch.is_grad_enabled():
            raise RuntimeError("second derivatives: psi is an estimate that has none; do not use create_graph=True")
        x, weight, mask, *iteration = ctx.saved_tensors
        past = Iteration(*iteration)
        dy = dy.to(past.root.dtype)
        z, h = x / past.root, dy * weight
        G = (h * z).sum(0) / past.n  # over all tokens, of which n are real
        psi = ctx.gradient_statistic(G, past)
        dx = (h - torch.where(mask, z * psi, 0)) / past.root  # [CN-2]
        dweight, dbias = (dy * z).sum(0), dy.sum(0) if ctx.has_bias else None  # [CN-3]
        return (dx.to(x.dtype), dweight.to(weight.dtype), dbias if dbias is None else dbias.to(weight.dtype),
                *[None] * (2 + len(iteration)))
