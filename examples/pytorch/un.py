"""Unified Normalization for PyTorch, to be trained: UN(width) where nn.LayerNorm(width) was.

    layer.norm1 = UN(512, warmup=4000)
    with real_tokens(model, mask):          # mask [B, T], True = a real token; without it padding counts
        loss = model(x).sum()

Written from docs/normalizers.md, where the equations and options are; tested with `foldgrad verify-traces`. Parameters
and buffers have foldgrad's names. MABN and PNStar are two more members of the family, as the UN paper describes them.
"""
from contextlib import contextmanager

import torch
from torch import nn
from torch.autograd.function import once_differentiable


def fires(norm, window, row, q, held):
    """The outlier test [UN-19]: the channels that `granularity` makes outliers."""
    M, C = window.shape
    tolerance = 1e-9 if window.dtype == torch.float64 else 4e-6
    with_q = window.index_copy(0, row, q[None])
    mean = with_q.mean(0)
    distance = mean - geometric_mean(with_q)
    if norm.granularity == "pooled":
        threshold = M * torch.var(window.sqrt().flatten(), correction=norm.ddof)
    else:
        threshold = M * torch.var(window.sqrt(), 0, correction=norm.ddof)
    takes_part = ~held
    if not norm.flag_low:
        takes_part = takes_part & (q > window.index_select(0, row)[0])
    if norm.granularity == "layer_sum":
        total = lambda values: torch.where(takes_part, values, 0).sum()
        outlier = total(distance) > (1 + tolerance) * total(threshold) + tolerance * total(mean)
    else:
        outlier = takes_part & (distance - tolerance * mean > (1 + tolerance) * threshold)
        if norm.granularity != "channel":
            outlier = outlier.any()
    return outlier & ~held


def geometric_mean(window):
    return window.clamp_min(1e-38).log().mean(0).exp()


class Normalize(torch.autograd.Function):
    """z = x / sqrt(var_hat + eps), times weight, plus bias. x is [P, C], mask [P, 1].

    What backward needs of its forward pass, it keeps in ctx: other forward passes may come between. It writes psi_ema
    and win_g. Nothing is read on the host, so that a GPU need not wait.
    """

    @staticmethod
    def forward(ctx, x, weight, bias, mask, norm):
        t = norm.iters.add_(1).clone()
        n = mask.sum()
        q = torch.where(mask, x, 0).square().sum(0) / n  # [CN-1]
        held = (n == 0) | ~q.isfinite()
        warm = t >= norm.warmup
        window, alpha = norm.window, norm.alpha
        geometric = norm.forward_average == "geometric"
        active = warm & (t > window) & (window > 1) if geometric else warm
        outlier = torch.zeros_like(held)
        if geometric:
            row = (t % window)[None]
            if norm.filtration and window > 1:
                outlier = active & fires(norm, norm.win_sq, row, q, held)
            average = geometric_mean(norm.win_sq.index_copy(0, row, q[None]))  # [UN-16]
            recorded = torch.where(outlier, norm.run_var, q)
            norm.win_sq.index_copy_(0, row, torch.where(held, norm.win_sq.index_select(0, row)[0], recorded)[None])
        else:
            average = alpha * norm.run_var + (1 - alpha) * q  # [UN-14]
        var_hat = torch.where(active & ~outlier, average, q)
        root = (torch.where(held, norm.run_var, var_hat) + norm.eps).sqrt()
        kept = held | outlier if norm.hold_on_skip else held
        new = alpha * norm.run_var + (1 - alpha) * (var_hat if geometric else q)
        norm.run_var.copy_(torch.where(kept, norm.run_var, new))
        norm.skips.add_((held | outlier).any())
        ctx.save_for_backward(x, weight, mask, root, n, t, held, outlier, active)
        ctx.norm = norm
        return x / root * weight + bias

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        x, weight, mask, root, n, t, held, outlier, active = ctx.saved_tensors
        norm = ctx.norm
        z, h = x / root, dy * weight
        G = (h * z).sum(0) / n  # over all tokens, of which n are real
        held = held | ~G.isfinite()
        psi_ema, m = getattr(norm, "psi_ema", None), G
        if norm.backward_average != "exponential":
            row = (t % norm.window)[None]
            old = norm.win_g.index_select(0, row)[0]
            average = norm.win_g.index_copy(0, row, G[None]).mean(0)
            m = torch.where((t > norm.window) & (t >= norm.warmup) & ~outlier, average, G)
            recorded = G if psi_ema is None else torch.where(outlier, psi_ema, G)
            norm.win_g.index_copy_(0, row, torch.where(held, old, recorded)[None])
        if psi_ema is None:
            psi = torch.where(held, 0, m)
        else:
            new = norm.alpha * psi_ema + (1 - norm.alpha) * m  # [UN-17]
            psi = torch.where(held, psi_ema, torch.where(active & ~outlier, new, G))
            psi_ema.copy_(torch.where(held, psi_ema, new))
        dx = (h - torch.where(mask, z * psi, 0)) / root  # [CN-2]
        return dx, (dy * z).sum(0), dy.sum(0), None, None  # [CN-3]


class UN(nn.Module):
    """Over the last axis of x, [..., width]; statistics are over all others, at real tokens.

    Computes in the dtype of its buffers and returns that of x. In training every forward pass is an iteration.
    """
    forward_average, backward_average = "geometric", "arithmetic_exponential"
    granularities = ("layer_sum", "layer_any", "channel", "pooled")

    def __init__(self, width, window=4, warmup=4000, alpha=0.9, eps=1e-5, filtration=False, granularity="layer_sum",
                 ddof=1, flag_low=True, hold_on_skip=False, device=None, dtype=None):
        super().__init__()
        if window < 1 or warmup < 0 or not 0 <= alpha <= 1 or not eps > 0 or ddof not in (0, 1):
            raise ValueError(f"UN: window {window} must be at least 1, warmup {warmup} at least 0, alpha {alpha} in "
                             f"[0, 1], eps {eps} above 0, ddof {ddof} 0 or 1")
        if granularity not in self.granularities:
            raise ValueError(f"UN: granularity must be one of {', '.join(self.granularities)}, got {granularity}")
        self.window, self.warmup, self.alpha, self.eps = window, warmup, alpha, eps
        self.filtration, self.granularity, self.ddof, self.flag_low = filtration, granularity, ddof, flag_low
        self.hold_on_skip = hold_on_skip
        self.mask = None  # of real_tokens
        of = {"device": device, "dtype": dtype}
        self.weight, self.bias = nn.Parameter(torch.ones(width, **of)), nn.Parameter(torch.zeros(width, **of))
        self.register_buffer("run_var", torch.ones(width, **of))
        if self.backward_average != "arithmetic":
            self.register_buffer("psi_ema", torch.zeros(width, **of))
        if self.forward_average == "geometric":
            self.register_buffer("win_sq", torch.zeros(window, width, **of))
        if self.backward_average != "exponential":
            self.register_buffer("win_g", torch.zeros(window, width, **of))
        self.register_buffer("iters", torch.zeros((), dtype=torch.int64, device=device))
        self.register_buffer("skips", torch.zeros((), dtype=torch.int64, device=device))
        self.register_forward_pre_hook(no_fast_path)

    def forward(self, x, mask=None):
        width, mask = self.weight.shape[0], self.mask if mask is None else mask
        if x.is_nested:
            raise ValueError("UN: x must not be nested: give nn.TransformerEncoder enable_nested_tensor=False")
        if x.shape[-1] != width:
            raise ValueError(f"UN: x must have {width} channels, got {list(x.shape)}")
        if mask is not None and mask.shape != x.shape[:-1]:
            raise ValueError(f"UN: mask must be {list(x.shape[:-1])}, got {list(mask.shape)}")
        if not self.training:
            A = self.weight / (self.run_var + self.eps).sqrt()
            return (x * A + self.bias).to(x.dtype)
        rows = x.reshape(-1, width).to(self.run_var.dtype)
        real = rows.new_ones(len(rows), 1).bool() if mask is None else mask.reshape(-1, 1).bool()
        return Normalize.apply(rows, self.weight, self.bias, real, self).reshape(x.shape).to(x.dtype)

    def reset_iterations(self):
        """For fine-tuning: the warm-up begins again, the rest stays."""
        self.iters.zero_()

    def extra_repr(self):
        return f"{len(self.weight)}, window={self.window}, warmup={self.warmup}, alpha={self.alpha}, eps={self.eps}"


class MABN(UN):
    """An exponential average forward, the mean of the last M backward: foldgrad's `mabn` of mode paper."""
    forward_average, backward_average = "exponential", "arithmetic"

    def __init__(self, width, window=4, warmup=100, alpha=0.98, eps=1e-5, device=None, dtype=None):
        super().__init__(width, window, warmup, alpha, eps, device=device, dtype=dtype)


class PNStar(UN):
    """Exponential averages in both directions: foldgrad's `pn_star` of mode paper."""
    forward_average, backward_average = "exponential", "exponential"

    def __init__(self, width, warmup=10000, alpha=0.9, eps=1e-5, device=None, dtype=None):
        super().__init__(width, 1, warmup, alpha, eps, device=device, dtype=dtype)


def no_fast_path(module, arguments):
    """A hook that does nothing. At inference nn.TransformerEncoderLayer computes LayerNorm from the weight and bias of
    norm1, whatever norm1 is, unless it finds a hook."""


@contextmanager
def real_tokens(model, mask):
    """Within it all of the model's normalizers leave out padding: mask is True at real tokens, shaped as x less C."""
    norms = [module for module in model.modules() if isinstance(module, UN)]
    before = [norm.mask for norm in norms]
    for norm in norms:
        norm.mask = mask
    try:
        yield
    finally:
        for norm, old in zip(norms, before):
            norm.mask = old


def replace_layer_norms(model, **options):
    """Puts a UN of these options where model has an nn.LayerNorm over one axis. Returns the model."""
    for module in list(model.modules()):
        if isinstance(module, nn.TransformerEncoder):
            module.enable_nested_tensor = module.use_nested_tensor = False
        for name, child in module.named_children():
            if isinstance(child, nn.LayerNorm) and len(child.normalized_shape) == 1:
                like = {} if child.weight is None else {"device": child.weight.device, "dtype": child.weight.dtype}
                setattr(module, name, UN(child.normalized_shape[0], **like, **options))
    return model
