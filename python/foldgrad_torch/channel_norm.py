"""ChannelNorm, of which UN, MABN and PNStar are members: one set of statistics per channel, over all tokens, some of
them of earlier iterations. At inference each is one affine map per channel, which fold() puts into the next layer."""
from __future__ import annotations

import warnings
from numbers import Integral

import torch
from torch import Tensor, nn

from .keep import keep, refuse_repetition
from .normalize import Iteration, Normalize, mean_square


class WarmUpWarning(UserWarning):
    """The warning of a normalizer that was put to use before its warm-up was over."""


class ChannelNorm(nn.Module):
    """A member of the family says in forward_statistic() and backward_statistic() how it averages.

    x is [..., C], or has its C channels at axis `dim`. Statistics go over everything else, at real tokens. They are
    computed and kept in f32, in f64 for parameters in f64, also after bfloat16() or half(); y has the dtype of x.
    In training every forward pass with gradients is an iteration, also each micro-batch whose gradients are summed.

    Parameters and buffers have the names of foldgrad's model directories. Raises ValueError for options out of range,
    TypeError for a width or warm-up that is no integer.
    """

    def __init__(self, width: int, warmup: int, alpha: float, eps: float, bias: bool, dim: int,
                 buffers: dict[str, tuple[int, ...]], device, dtype):
        super().__init__()
        for name, value in (("width", width), ("warmup", warmup)):
            if not isinstance(value, Integral):
                raise TypeError(f"{self.kind}: {name} must be an integer, got {value!r}")
        if width < 1 or warmup < 0 or not 0 <= alpha <= 1 or not eps > 0:
            raise ValueError(f"{self.kind}: width {width} must be at least 1, warmup {warmup} at least 0, "
                             f"alpha {alpha} in [0, 1], eps {eps} above 0")
        self.warmup, self.alpha, self.eps, self.dim = warmup, alpha, eps, dim
        self.mask: Tensor | None = None  # of real_tokens()
        self.weight = nn.Parameter(torch.ones(width, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(width, device=device, dtype=dtype)) if bias else None
        state = torch.promote_types(self.weight.dtype, torch.float32)
        self.register_buffer("run_var", torch.ones(width, device=device, dtype=state))
        for name, axes in buffers.items():  # those before the channels
            self.register_buffer(name, torch.zeros(*axes, width, device=device, dtype=state))
        for name in ("iters", "skips"):
            self.register_buffer(name, torch.zeros((), dtype=torch.int64, device=device))
        self.register_forward_pre_hook(no_fast_path)

    @property
    def kind(self) -> str:
        return type(self).__name__

    @property
    def first_average(self) -> int:
        """Returns the first iteration that averages. Until then dx is the exact gradient."""
        return self.warmup

    def active(self, t: Tensor) -> Tensor:
        """Returns bool [], True if iteration t normalizes with an average."""
        return t >= self.first_average

    def forward_statistic(self, q: Tensor, t: Tensor, held: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Returns var_hat [C], the channels to be skipped, bool [C], and new values of buffers."""
        raise NotImplementedError

    def backward_statistic(self, G: Tensor, past: Iteration) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns psi [C] and new values of buffers, from the gradient statistic G [C]."""
        raise NotImplementedError

    def psi_when_held(self) -> Tensor | float:
        return 0.0

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Normalizes x. mask: bool, shaped as x without its channels, True at real tokens; by default that of
        real_tokens(), or all.

        Raises ValueError for an x or mask that does not fit, RuntimeError for a pass that checkpointing repeats."""
        mask = self.mask if mask is None else mask
        x = self.channels_last(x, mask)
        if self.training:
            y = self.training_pass(x, mask)
        else:
            A, B = self.affine()
            y = (x * A + B).to(x.dtype)  # [CN-4]
        return y.movedim(-1, self.dim)

    def channels_last(self, x: Tensor, mask: Tensor | None) -> Tensor:
        width, axis = len(self.weight), "last axis" if self.dim == -1 else f"axis {self.dim}"
        if x.is_nested:
            raise ValueError(f"{self.kind}: x must not be nested: make nn.TransformerEncoder with "
                             "enable_nested_tensor=False")
        if not -x.dim() <= self.dim < x.dim() or x.shape[self.dim] != width:
            raise ValueError(f"{self.kind}: x must have {width} channels in its {axis}, got {list(x.shape)}")
        if not x.is_floating_point():
            raise ValueError(f"{self.kind}: x must have floating-point numbers, got {x.dtype}")
        x = x.movedim(self.dim, -1)
        if mask is not None and mask.shape != x.shape[:-1]:
            raise ValueError(f"{self.kind}: mask must be {list(x.shape[:-1])}, got {list(mask.shape)}")
        return x

    def affine(self) -> tuple[Tensor, Tensor]:
        """Returns A and B [C] of y = A x + B at inference [CN-4]."""
        A = self.weight / (self.run_var + self.eps).sqrt()
        return A, torch.zeros_like(A) if self.bias is None else self.bias.to(A.dtype)

    def training_pass(self, x: Tensor, mask: Tensor | None) -> Tensor:
        compiling, counted = torch.compiler.is_compiling(), torch.is_grad_enabled()
        if not compiling:
            refuse_repetition()
            if not counted:
                warnings.warn(f"{self.kind}: a pass in training mode without gradients is not an iteration: it "
                              "computes what the next one would and leaves the statistics unchanged. For inference "
                              "call eval().")
        rows = x.reshape(-1, x.shape[-1])
        real = rows.new_ones((len(rows), 1), dtype=torch.bool) if mask is None else mask.reshape(-1, 1).bool()
        with torch.no_grad():
            iteration = self.statistics(rows, real, counted)
            if compiling:
                iteration = Iteration(*keep(list(iteration)))
        return Normalize.apply(rows, self.weight, self.bias, real, self.gradient_statistic, *iteration).reshape(x.shape)

    def statistics(self, rows: Tensor, real: Tensor, counted: bool) -> Iteration:
        """Takes the forward step per channel, [CN-1] to [CN-6]. Writes the state if `counted`."""
        t, n = self.iters + 1, real.sum()
        q = mean_square(rows.to(self.run_var.dtype), real, n)
        held = (n == 0) | ~q.isfinite()
        var_hat, skip, new = self.forward_statistic(q, t, held)
        root = (torch.where(held, self.run_var, var_hat) + self.eps).sqrt()
        if counted:
            self.write(new, held)
            self.iters.copy_(t)
            self.skips.add_((held | skip).any())
        return Iteration(t, n, root, held, skip)

    def gradient_statistic(self, G: Tensor, past: Iteration) -> Tensor:
        """Takes the backward step per channel: returns psi [C] and writes the state."""
        held = past.held | ~G.isfinite()
        psi, new = self.backward_statistic(G, past)
        psi = torch.where(held, self.psi_when_held(), psi)
        self.write(new, held)
        return psi

    def write(self, new: dict[str, Tensor], held: Tensor) -> None:
        for name, value in new.items():
            buffer = getattr(self, name)
            buffer.copy_(torch.where(held, buffer, value))

    def train(self, mode: bool = True):
        if self.training and not mode and not self.iters.is_meta and 0 < int(self.iters) < self.first_average:
            # Always the same text, so that Python shows it once.
            warnings.warn(f"{self.kind}: eval() before iteration {self.first_average}, the first that averages: so far "
                          "each batch was normalized by its own statistic. That is right for a validation early in "
                          "training. At the end of training the warm-up was too long: docs/pytorch.md says how to choose "
                          "it. warm_up_report(model) shows the counters.", WarmUpWarning)
        return super().train(mode)

    def _apply(self, fn, recurse=True):
        # bfloat16() and half() are for parameters. An average of weight 0.9 in the 8 bits of bf16 would stand still.
        before = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, old in before.items():
            new = self._buffers[name]
            if new.is_floating_point() and new.dtype.itemsize < 4:
                self._buffers[name] = old.to(new.device, torch.float32)
        return self

    def reset_iterations(self) -> None:
        """Begins the warm-up again, for fine-tuning; the rest stays."""
        self.iters.zero_()

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, warmup={self.warmup}, alpha={self.alpha}, eps={self.eps}"


def no_fast_path(module, arguments):
    """Does nothing, as a hook. At inference nn.TransformerEncoderLayer computes LayerNorm from the weight and bias of
    norm1, whatever norm1 is, unless it finds a hook, which it looks for since PyTorch 2.5."""
