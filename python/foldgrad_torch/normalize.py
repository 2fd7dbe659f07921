"""Element-wise arithmetic of UN, MABN and PN*. channel_norm.py has the per-channel arithmetic."""
from __future__ import annotations

import inspect
import math
from typing import Callable, NamedTuple

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

BLOCK = 2048  # rows


class Iteration(NamedTuple):
    """The decisions of a forward pass. Its backward pass uses them even if other passes ran in between.

    In eager mode on a CPU, t and active are Python values, and held and skip are False if they are False in all
    channels."""
    t: Tensor | int  # int64 []: iteration number; the first is 1
    n: Tensor  # []: number of real tokens
    root: Tensor  # [C]: sqrt(var_hat + eps)
    active: Tensor | bool  # bool []: True if the iteration normalizes with an average
    held: Tensor | bool  # bool [C]: True if the channel's statistic is not finite, so that run_var replaces it
    skip: Tensor | bool  # bool [C]: True if the channel is held or its q is an outlier, for which var_hat is q itself


def rows_of(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns x [..., C] as contiguous rows [P, C] with the given dtype."""
    return x.reshape(-1, x.shape[-1]).to(dtype).contiguous()


def not_finite(values: Tensor) -> Tensor | bool:
    """Returns True where a value is infinite or NaN. On a CPU, returns a single False if the sum of the values is
    finite."""
    if eager_cpu(values) and math.isfinite(values.sum()):
        return False
    return values - values != 0  # two operations; isfinite() needs five


def choose(condition: Tensor | bool, a: Tensor | float, b: Tensor | float) -> Tensor | float:
    """Returns torch.where(condition, a, b). For a Python bool, returns a or b without running an operation."""
    return torch.where(condition, a, b) if isinstance(condition, Tensor) else a if condition else b


def with_row(window: Tensor, row: Tensor | int, values: Tensor) -> Tensor:
    """Returns a copy of the window [M, C] with `values` [C] in the given row."""
    if isinstance(row, Tensor):
        return window.index_copy(0, row[None], values[None])
    return window.select_scatter(values, 0, row)


def real_elements(x: Tensor, mask: Tensor | None) -> Tensor:
    """Returns x [P, C] with 0 at padding. The mask, bool [P, 1], is True at real tokens; if it is None, all are."""
    return x if mask is None else torch.where(mask, x, 0)


def eager_cpu(*tensors: Tensor) -> bool:
    return not torch.compiler.is_compiling() and all(
        type(tensor) is Tensor and tensor.is_cpu and not is_functorch_wrapped_tensor(tensor) for tensor in tensors)


def scaled_difference(a: Tensor, A: Tensor, b: Tensor, B: Tensor) -> Tensor:
    """Returns A a - B b for rows a and b [P, C] and factors A and B [C]. On a CPU, works on blocks of rows that fit
    into the cache."""
    if not eager_cpu(a, b):
        return torch.addcmul(a * A, b, B, value=-1)
    result = torch.empty_like(a)
    for part, of_a, of_b in zip(*(rows.split(256) for rows in (result, a, b))):
        torch.mul(of_a, A, out=part).addcmul_(of_b, B, value=-1)
    return result


def column_sums(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the sums of a b and of a over the rows, both [C], for a and b [P, C]."""
    if not eager_cpu(a, b):
        return (a * b).sum(0), a.sum(0)
    # The line above reads the data several times. If PyTorch's batch normalization runs in inference mode, its backward
    # pass computes the gradients of weight and bias in a single pass. With mean 0, variance 0 and eps 1, these
    # gradients are the sums that we need. That pass adds the rows one after the other, so we call it on blocks of rows
    # to keep the rounding error small.
    zero = a.new_zeros(a.shape[1])
    sums = torch.ops.aten.native_batch_norm_backward.default
    blocks = [sums(as_image(of_a), as_image(of_b), None, zero, zero, None, None, False, 1.0, (False, True, True))[1:]
              for of_a, of_b in (zip(a.split(BLOCK), b.split(BLOCK)) if len(a) > BLOCK else [(a, b)])]
    return blocks[0] if len(blocks) == 1 else tuple(torch.stack(parts).sum(0) for parts in zip(*blocks))


def as_image(rows: Tensor) -> Tensor:
    """Views contiguous rows [P, C] as one image of P x 1 pixels with channels last."""
    length, width = rows.shape
    return rows.as_strided((1, width, length, 1), (length * width, 1, width, 1))


class Normalize(torch.autograd.Function):
    """Computes y = weight * z + bias with z = x / root. The result has x's dtype; the arithmetic uses root's.

    x is [..., C]; weight is [C]; bias is [C] or None; mask is bool [P, 1] or None. The backward pass replaces the
    gradient through root by psi = gradient_statistic(sums of dz * z, iteration), which also writes the normalizer's
    state. The host only reads values that are on a CPU, so it never waits for a GPU.
    """
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor | None,
                gradient_statistic: Callable[[Tensor, Iteration], Tensor], *iteration: Tensor) -> Tensor:
        root = Iteration(*iteration).root
        A, wide = weight / root, x.to(root.dtype)
        return (wide * A if bias is None else torch.addcmul(bias.to(root.dtype), wide, A)).to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, weight, bias, mask, ctx.gradient_statistic, *iteration = inputs
        ctx.save_for_backward(x, weight, mask, *(v if isinstance(v, Tensor) else None for v in iteration))
        ctx.decided = [None if isinstance(v, Tensor) else v for v in iteration]
        ctx.has_bias = bias is not None

    @staticmethod
    def backward(ctx, dy: Tensor):
        x, weight, mask, *iteration = ctx.saved_tensors
        past = Iteration(*(decided if v is None else v for v, decided in zip(iteration, ctx.decided)))
        with torch.no_grad():
            rows, dy_rows = (rows_of(values, past.root.dtype) for values in (x, dy))
            dy_x, dbias = column_sums(dy_rows, rows)
            A = weight / past.root
            psi = ctx.gradient_statistic(A * dy_x, past)
            dx = scaled_difference(dy_rows, A, real_elements(rows, mask), psi / past.root.square())  # [CN-2]
            given = [dx.view_as(x).to(x.dtype), (dy_x / past.root).to(weight.dtype)]  # [CN-3]
            if ctx.has_bias:
                given.append(dbias.to(weight.dtype))
        if torch.is_grad_enabled():
            given = FirstOnly.apply(len(given), *given, dy, x, weight)
        return (*given, *[None] * (5 + len(iteration) - len(given)))


# PyTorch reads the signature in each call, and computing it takes as long as ten operations.
Normalize.forward.__signature__ = inspect.signature(Normalize.forward)


class FirstOnly(torch.autograd.Function):
    """Returns the gradients and refuses to differentiate them, since psi is an estimate."""
    generate_vmap_rule = True

    @staticmethod
    def forward(count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(gradient.view_as(gradient) for gradient in tensors[:count])

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        pass

    @staticmethod
    def backward(ctx, *unused: Tensor):
        raise RuntimeError("UN, MABN, PNStar: there are no second derivatives in training, since psi is an estimate")
