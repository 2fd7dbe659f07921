"""ChannelNorm, the base class of UN, MABN and PNStar. These normalizers compute statistics for each channel over
all tokens and average them over iterations. At inference they apply an affine map per channel, which fold() merges
into the next layer."""
from __future__ import annotations

import copy
import warnings
from functools import partial
from numbers import Integral
from typing import Mapping

import torch
import torch.distributed
from torch import Tensor, nn

from .keep import keep, refuse_repetition, store
from .normalize import Iteration, Normalize, choose, column_sums, eager_cpu, not_finite, real_elements, rows_of


WITHOUT_STATISTICS = ("inference without statistics, at iteration 0: train the model, or collect statistics with "
                      "calibrate(model, batches)")


class WarmUpWarning(UserWarning):
    """Warns that a normalizer is used for inference before its warm-up is over."""


class ChannelNorm(nn.Module):
    """The base class of UN, MABN and PNStar, which define averages in forward_statistic() and backward_statistic().

    x is [..., C], or has its C channels at axis `dim`. Statistics are over all other axes, but only at real tokens.
    They are computed and stored in f64 if the parameters are f64, otherwise in f32, even after bfloat16() or half(). y
    has the dtype of x. In training, every forward pass with gradients is an iteration, so with gradient accumulation
    each micro-batch counts.

    Parameters and buffers have the same names as in foldgrad's model directories. The constructor raises ValueError for
    an option that is out of range, and TypeError if the width or the warm-up is not an integer.
    """

    def __init__(self, width: int, warmup: int, alpha: float, eps: float, bias: bool, dim: int,
                 buffers: dict[str, tuple[int, ...]], device, dtype, process_group):
        super().__init__()
        for name, value in (("width", width), ("warmup", warmup)):
            if not isinstance(value, Integral):
                raise TypeError(f"{self.kind}: {name} must be an integer, got {value!r}")
        if width < 1 or warmup < 0 or not 0 <= alpha <= 1 or not eps > 0:
            raise ValueError(f"{self.kind}: width must be at least 1, warmup at least 0, alpha in [0, 1] and eps "
                             f"above 0, got {width}, {warmup}, {alpha} and {eps}")
        self.warmup, self.alpha, self.eps, self.dim = warmup, alpha, eps, dim
        self.mask: Tensor | None = None  # set by real_tokens()
        self.calibrating = False  # True during calibrate(), whose passes count although they have no gradients
        self.process_group = process_group
        self.weight = nn.Parameter(torch.ones(width, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(width, device=device, dtype=dtype)) if bias else None
        state = torch.promote_types(self.weight.dtype, torch.float32)
        self.register_buffer("run_var", torch.ones(width, device=device, dtype=state))
        for name, axes in buffers.items():  # the axes before the channel axis
            self.register_buffer(name, torch.zeros(*axes, width, device=device, dtype=state))
        for name in ("iters", "skips"):
            self.register_buffer(name, torch.zeros((), dtype=torch.int64, device=device))
        self.noted = WITHOUT_STATISTICS
        self.register_forward_pre_hook(no_fast_path)

    @property
    def kind(self) -> str:
        return type(self).__name__

    @property
    def first_average(self) -> int:
        """The first iteration that uses averages. Before it, dx is the exact gradient."""
        return self.warmup

    def active(self, t: Tensor | int) -> Tensor | bool:
        """True if iteration t normalizes with an average. If t is a tensor, returns a bool tensor []."""
        return t >= self.first_average

    def forward_statistic(self, q: Tensor, t: Tensor | int, active: Tensor | bool, held: Tensor | bool,
                          state: Mapping[str, Tensor]) -> tuple[Tensor, Tensor | bool, dict[str, Tensor]]:
        """Returns var_hat [C], the skipped channels (bool [C], including held channels), and new values of buffers."""
        raise NotImplementedError

    def backward_statistic(self, G: Tensor, past: Iteration,
                           state: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns psi [C] and new values of buffers, given the gradient statistic G [C]."""
        raise NotImplementedError

    def psi_when_held(self, state: Mapping[str, Tensor]) -> Tensor | float:
        return 0.0

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Normalizes x. The mask is bool, has the shape of x without the channel axis, and is True at real tokens. By
        default, it is the mask of real_tokens(). Without a mask, all tokens are real.

        Raises ValueError if the shape or dtype of x or the shape of the mask is wrong, and RuntimeError if activation
        checkpointing repeats a training pass."""
        mask = self.mask if mask is None else mask
        x = self.channels_last(x, mask)
        if self.training:
            y = self.training_pass(x, mask)
        else:
            self.warn_of_statistics()
            A, B = self.affine()
            y = torch.addcmul(B, x.to(A.dtype), A).to(x.dtype)  # [CN-4]
        return y if self.dim == -1 else y.movedim(-1, self.dim)

    def channels_last(self, x: Tensor, mask: Tensor | None) -> Tensor:
        width, axis = len(self.weight), "the last axis" if self.dim == -1 else f"axis {self.dim}"
        if x.is_nested:
            raise ValueError(f"{self.kind}: x must not be nested; make nn.TransformerEncoder with "
                             "enable_nested_tensor=False")
        if not -x.dim() <= self.dim < x.dim() or x.shape[self.dim] != width:
            raise ValueError(f"{self.kind}: x must have {width} channels in {axis}, got {list(x.shape)}")
        if not x.is_floating_point():
            raise ValueError(f"{self.kind}: x must have a floating-point dtype, got {x.dtype}")
        x = x if self.dim == -1 else x.movedim(self.dim, -1)
        if mask is not None and mask.shape != x.shape[:-1]:
            raise ValueError(f"{self.kind}: mask must have shape {list(x.shape[:-1])}, got {list(mask.shape)}")
        return x

    def affine(self) -> tuple[Tensor, Tensor]:
        """Returns A and B [C] of the map y = A x + B at inference [CN-4]."""
        A = self.weight / (self.run_var + self.eps).sqrt()
        return A, torch.zeros_like(A) if self.bias is None else self.bias.to(A.dtype)

    def training_pass(self, x: Tensor, mask: Tensor | None) -> Tensor:
        compiling, counted = torch.compiler.is_compiling(), torch.is_grad_enabled() or self.calibrating
        if not compiling:
            refuse_repetition()
            if not counted:
                warnings.warn(f"{self.kind}: a pass in training mode without gradients is not an iteration; it "
                              "returns what the next iteration would and leaves the statistics unchanged. For "
                              "inference, call eval().")
        mask = None if mask is None else mask.reshape(-1, 1).bool()
        state = dict(self._buffers)  # a copy, since torch.func.functional_call removes its buffers before backward
        with torch.no_grad():
            iteration = self.statistics(x.detach(), mask, state, counted)
            if compiling:
                iteration = Iteration(*keep(list(iteration)))
        rule = partial(self.gradient_statistic, state)
        return Normalize.apply(x, self.weight, self.bias, mask, rule, *iteration)

    def statistics(self, x: Tensor, mask: Tensor | None, state: Mapping[str, Tensor], counted: bool) -> Iteration:
        """Computes a forward pass's statistics for each channel, [CN-1] to [CN-6]. Writes the state if `counted`."""
        iters, run_var = state["iters"] + 1, state["run_var"]
        t = int(iters) if eager_cpu(iters) else iters
        real, active = real_elements(rows_of(x, run_var.dtype), mask), self.active(t)
        n = run_var.new_full((1,), len(real)) if mask is None else mask.sum(0, dtype=run_var.dtype)
        squares, n = self.over_ranks(column_sums(real, real)[0], n)
        q = squares / n  # [CN-1]
        held = not_finite(q)  # q is NaN if there are no tokens
        var_hat, skip, new = self.forward_statistic(q, t, active, held, state)
        root = (choose(held, run_var, var_hat) + self.eps).sqrt()
        if counted:
            self.write(new, held, state)
            store(state["iters"], iters)
            if skip is not False:
                store(state["skips"], state["skips"] + skip.any())
        return Iteration(t, n, root, active, held, skip)

    def over_ranks(self, *values: Tensor) -> list[Tensor]:
        """Returns each value summed over the processes of the group."""
        if self.process_group is None:
            return list(values)
        together = torch.cat(values)
        torch.distributed.all_reduce(together, group=self.process_group)
        return list(together.split([len(value) for value in values]))

    def gradient_statistic(self, state: Mapping[str, Tensor], sums: Tensor, past: Iteration) -> Tensor:
        """Returns psi [C], given the sums [C] of dz * z over the rows, and writes the state."""
        G = self.over_ranks(sums)[0] / past.n  # the sums cover all tokens; n counts the real ones
        held = past.held | not_finite(G)
        psi, new = self.backward_statistic(G, past, state)
        psi = choose(held, self.psi_when_held(state), psi)
        self.write(new, held, state)
        return psi

    def write(self, new: Mapping[str, Tensor], held: Tensor | bool, state: Mapping[str, Tensor]) -> None:
        for name, value in new.items():
            store(state[name], choose(held, state[name], value))

    def train(self, mode: bool = True):
        if not mode and self.training:
            self.note_state()
            if self.iters.is_meta or self.iters > 0:  # no warning for eval() of a new model, which is common
                self.warn_of_statistics()
        return super().train(mode)

    def lacking(self) -> str:
        """Returns the reason why the statistics are not ready for use, or "". On a GPU, waits for the counters."""
        if self.iters.is_meta or self.iters >= self.first_average:
            return ""
        if self.iters > 0:
            return (f"inference before iteration {self.first_average}, the first that uses averages: so far, each "
                    "batch was normalized by its own statistic. This is expected in a validation early in training. If "
                    "training has ended, the warm-up was too long; docs/pytorch.md says how to choose it. "
                    "warm_up_report(model) shows the counters.")
        # Without iterations, run_var differs from 1 if it comes from a BatchNorm or from calibrate().
        return WITHOUT_STATISTICS if (self.run_var == 1).all() else ""

    def note_state(self) -> None:
        """Stores the result of lacking(), so that forward passes need not wait for counters on a GPU."""
        self.noted = self.lacking()

    def warn_of_statistics(self) -> None:
        if self.noted and not torch.compiler.is_dynamo_compiling():
            warnings.warn(f"{self.kind}: {self.noted}", WarmUpWarning)  # Python shows repeated texts only once

    def _load_from_state_dict(self, *arguments, **options):
        super()._load_from_state_dict(*arguments, **options)
        self.note_state()

    def _apply(self, fn, recurse=True):
        # bfloat16() and half() convert parameters only. With the 8 significant bits of bf16, a running average with
        # weight 0.9 would stop changing.
        before = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, old in before.items():
            new = self._buffers[name]
            if new.is_floating_point() and new.dtype.itemsize < 4:
                self._buffers[name] = old.to(new.device, torch.float32)
        return self

    def reset_iterations(self) -> None:
        """Restarts the warm-up, for fine-tuning. Leaves everything else unchanged."""
        self.iters.zero_()
        self.note_state()

    def __deepcopy__(self, memo):
        new = type(self).__new__(type(self))
        memo[id(self)], memo[id(self.process_group)] = new, self.process_group  # the copy shares the process group
        new.__setstate__(copy.deepcopy(self.__dict__, memo))
        return new

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, warmup={self.warmup}, alpha={self.alpha}, eps={self.eps}"


def no_fast_path(module, arguments):
    """A hook that does nothing. At inference, nn.TransformerEncoderLayer computes LayerNorm with the weight and bias of
    norm1, whatever type norm1 has, unless norm1 has a hook. PyTorch has checked for hooks since 2.5."""
