"""Puts UN, or a relative, where a model has other normalizers."""
from __future__ import annotations

import copy
from collections import defaultdict
from typing import Callable

import torch
from torch import Tensor, nn

from .channel_norm import ChannelNorm
from .report import Refusal, Report
from .un import UN

CHANNELS_AT_AXIS_1 = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def replace_norms(module: nn.Module, kind: type[ChannelNorm] = UN,
                  where: Callable[[str, nn.Module], bool] = lambda name, norm: True, **options) -> Report:
    """Puts a `kind` with these options in the place of every normalizer of the module, in the module itself.

    Replaced are, by what they compute and not by their class: LayerNorm and RMSNorm over the last axis; and PyTorch's
    BatchNorm1d, 2d and 3d, over axis 1. The parameters `weight` and `bias` stay the same objects, so that an optimizer
    may hold them already; without a bias there is none afterwards. where(name, normalizer) says which to look at.

    The report has what was replaced, and what not, with the reason. Raises ValueError if nothing was, or could be,
    because `module` is the normalizer itself.
    """
    if is_norm(module):
        raise ValueError(f"replace_norms: this {type(module).__name__} has no parent to replace it in: construct "
                         f"{kind.__name__}(...) in its place")
    report, places = Report(), defaultdict(list)
    for name, child in module.named_modules(remove_duplicate=False):
        if is_norm(child) and where(name, child):
            places[child].append(name)
    for norm, (name, *others) in places.items():
        try:
            if others:
                raise Refusal(f"is the same module as {', '.join(others)}: their statistics would mix")
            dim = channel_axis(norm)
        except Refusal as reason:
            report.refused[name] = f"{type(norm).__name__}: {reason}"
            continue
        parent, _, last = name.rpartition(".")
        setattr(module.get_submodule(parent), last, successor(norm, kind, dim, options))
        report.done[name] = f"{type(norm).__name__} -> {kind.__name__}({len(norm.weight)}) over axis {dim}"
    if not report.done:
        there = sum(isinstance(part, ChannelNorm) for part in module.modules())
        already = f"; it has {there} of this package" if there else ""
        raise ValueError(f"replace_norms: {type(module).__name__} has no normalizer that can be replaced{already}"
                         f"\n{report}")
    for encoder in module.modules():
        if isinstance(encoder, nn.TransformerEncoder):  # nested tensors are for LayerNorm, see no_fast_path()
            encoder.enable_nested_tensor = encoder.use_nested_tensor = False
    return report


def is_norm(module: nn.Module) -> bool:
    """Decides by the name of the class, as models have normalizers of their own; looks into those that hold others.

    A leading underscore is that of PyTorch's _WeightNorm and _SpectralNorm, which are about weights."""
    name = type(module).__name__
    return ("norm" in name.lower() and not name.startswith("_") and not isinstance(module, ChannelNorm)
            and next(module.children(), None) is None)


def channel_axis(norm: nn.Module) -> int:
    """Returns the axis of the channels, -1 or 1. Raises Refusal."""
    parameters = dict(norm.named_parameters(recurse=False))
    if any(nn.parameter.is_lazy(p) for p in parameters.values()):
        raise Refusal("is lazy: its width is not known before the first pass of the model")
    if parameters.keys() - {"bias"} != {"weight"} or any(p.dim() != 1 for p in parameters.values()):
        shapes = ", ".join(f"{name} {list(p.shape)}" for name, p in parameters.items()) or "none"
        raise Refusal(f"needs a weight of one axis, optionally a bias, and no other parameters; it has {shapes}")
    if type(norm) in CHANNELS_AT_AXIS_1:
        return 1
    try:
        same = normalizes_last_axis(norm)
    except Exception as error:  # it is the code of others, on an input that it may not be made for
        raise Refusal(f"fails on [2, tokens, {len(norm.weight)}], channels last: {type(error).__name__}; where its "
                      f"channels are at another axis, construct UN({len(norm.weight)}, dim=...) in its place") from error
    if not same:
        raise Refusal("computes neither LayerNorm nor RMSNorm over the last axis")
    return -1


def normalizes_last_axis(norm: nn.Module) -> bool:
    """Returns True if it computes what LayerNorm or RMSNorm of the last axis does, on random numbers and parameters.

    A LayerNorm over axis 1 gives other numbers, or none."""
    norm = copy.deepcopy(norm).to("cpu", torch.float64)
    width, generator = len(norm.weight), torch.Generator().manual_seed(1)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.copy_(random(width))
        x = random(2, 3, width)
        bias = 0 if getattr(norm, "bias", None) is None else norm.bias
        y = norm(x)
        for centred in (x - x.mean(-1, keepdim=True), x):
            expected = centred / centred.square().mean(-1, keepdim=True).sqrt() * norm.weight + bias
            # Its eps is not known. One of 1e-3, the largest in use, changes y by 5e-4 of itself.
            if y.shape == x.shape and torch.allclose(y, expected, rtol=1e-2, atol=1e-2):
                return True
    return False


def successor(norm: nn.Module, kind: type[ChannelNorm], dim: int, options: dict) -> ChannelNorm:
    weight, bias = norm.weight, getattr(norm, "bias", None)
    new = kind(len(weight), bias=bias is not None, dim=dim, device=weight.device, dtype=weight.dtype, **options)
    new.weight, new.bias = weight, bias
    return new.train(norm.training)
