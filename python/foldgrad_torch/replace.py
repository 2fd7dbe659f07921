"""Replaces the normalizers of a model with UN, MABN or PNStar."""
from __future__ import annotations

from collections import defaultdict
from typing import Callable

import torch
from torch import Tensor, nn

from .affine import has_running_statistics
from .channel_norm import ChannelNorm
from .copies import detached_copy
from .report import Refusal, Report
from .un import UN

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
OF_PYTORCH = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.LocalResponseNorm,
              nn.CrossMapLRN2d)


def replace_norms(module: nn.Module, kind: type[ChannelNorm] = UN,
                  where: Callable[[str, nn.Module], bool] = lambda name, norm: True, dim: int | None = None,
                  **options) -> Report:
    """Replaces normalizers in the module, in place, with normalizers of type `kind` that have these options.

    The candidates are the normalizers for which where(name, normalizer) returns true. Replaces PyTorch's BatchNorm1d,
    2d and 3d, and modules that compute LayerNorm or RMSNorm over the last axis or axis 1, which we recognize by their
    results on random numbers. `dim` restricts the replacement to one axis. The parameters `weight` and `bias` stay the
    same objects, so an optimizer may already hold them. If a normalizer has no bias, its successor has none.

    The statistics of a BatchNorm are kept: run_var becomes running_var + running_mean^2, the mean is merged into the
    bias, and the ratio of root mean square to standard deviation into the weight, both in place. Inference therefore
    gives the same results. The iteration count and the windows start afresh, and momentum is not converted to `alpha`.

    The report lists the replaced normalizers, and the other candidates with the reason why they stay. Raises ValueError
    if none was replaced, or if `module` is itself a normalizer.
    """
    if is_norm(module):
        raise ValueError(f"replace_norms: this {type(module).__name__} is not part of another module; construct "
                         f"{kind.__name__}(...) instead")
    report, places = Report(), defaultdict(list)
    for name, child in module.named_modules(remove_duplicate=False):
        if is_norm(child) and where(name, child):
            places[child].append(name)
    for norm, (name, *others) in places.items():
        try:
            if others:
                raise Refusal(f"is the same module as {', '.join(others)}: their statistics would mix")
            axis = channel_axis(norm, dim)
            new = successor(norm, kind, axis, options)
        except Refusal as reason:
            report.refused[name] = f"{type(norm).__name__}: {reason}"
            continue
        parent, _, last = name.rpartition(".")
        setattr(module.get_submodule(parent), last, new)
        report.done[name] = f"{type(norm).__name__} -> {kind.__name__}({len(norm.weight)}) over axis {axis}"
    if not report.done:
        there = sum(isinstance(part, ChannelNorm) for part in module.modules())
        already = f"; it already has {there} of this package" if there else ""
        raise ValueError(f"replace_norms: {type(module).__name__} has no normalizer that can be replaced{already}"
                         f"\n{report}")
    for encoder in module.modules():
        if isinstance(encoder, nn.TransformerEncoder):  # nested tensors only work with LayerNorm, see no_fast_path()
            encoder.enable_nested_tensor = encoder.use_nested_tensor = False
    return report


def is_norm(module: nn.Module) -> bool:
    """True for normalizers from outside this package: PyTorch's normalizers and their subclasses, modules with running
    statistics, modules that compute LayerNorm or RMSNorm, and modules whose class has "norm" in its name.

    If a module of the last kind has children, it must have a weight, which excludes wrappers such as PreNorm. Names
    with a leading underscore are excluded, since PyTorch's _WeightNorm and _SpectralNorm normalize weights."""
    if isinstance(module, ChannelNorm):
        return False
    if isinstance(module, OF_PYTORCH) or has_running_statistics(module):
        return True
    name, leaf, has_weight = type(module).__name__, not module._modules, weight_of_channels(module)
    if "norm" in name.lower() and not name.startswith("_"):
        return leaf or has_weight
    return leaf and has_weight and axis_by_trial(module, AXES) is not None


def weight_of_channels(module: nn.Module) -> bool:
    """True if the module itself has a weight [C], optionally a bias [C], and no other parameters."""
    parameters = module._parameters
    return (parameters.get("weight") is not None and parameters.keys() <= {"weight", "bias"}
            and all(p is None or not nn.parameter.is_lazy(p) and p.dim() == 1 for p in parameters.values()))


AXES = ((-1, 3), (1, 4), (1, 3))  # (axis to try, number of axes of the input)


def channel_axis(norm: nn.Module, dim: int | None) -> int:
    """Returns the channel axis: `dim`, or, if it is None, the axis that the normalizer uses, -1 or 1. Raises Refusal
    if the normalizer cannot be replaced."""
    if any(nn.parameter.is_lazy(p) for p in norm.parameters()):
        raise Refusal("is lazy: its width is not known before the first pass of the model")
    if not weight_of_channels(norm):
        shapes = ", ".join(f"{name} {list(p.shape)}" for name, p in norm.named_parameters(recurse=False)) or "none"
        raise Refusal(f"needs a weight with one axis, optionally a bias, and no other parameters; it has {shapes}")
    if type(norm) in BATCH_NORMS and dim in (None, 1):
        return 1
    if isinstance(norm, nn.modules.batchnorm._NormBase):
        raise Refusal("is not a plain BatchNorm1d, 2d or 3d over axis 1: anything else that it computes, such as an "
                      "activation or statistics of each example, would be lost")
    axis = axis_by_trial(norm, AXES if dim is None else [(dim, rank) for rank in (4, 3, 5) if dim != rank - 1])
    if axis is None:
        raise Refusal("computes neither LayerNorm nor RMSNorm over " +
                      ("the last axis or axis 1" if dim is None else f"axis {dim}"))
    return axis


def axis_by_trial(norm: nn.Module, axes) -> int | None:
    """Returns the first axis over which the normalizer equals LayerNorm or RMSNorm for random inputs and parameters."""
    try:
        norm = detached_copy(norm).to("cpu", torch.float64)
    except Exception:  # here and below, third-party code may raise anything
        return None
    width, generator = len(norm.weight), torch.Generator().manual_seed(1)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    with torch.no_grad():
        for parameter in norm.parameters(recurse=False):
            parameter.copy_(random(width))
        for axis, rank in axes:
            if not -rank <= axis < rank:
                continue
            x = random(*(2, 3, 5, 4)[:rank - 1], width).movedim(-1, axis)
            try:
                y = norm(x).movedim(axis, -1)
            except Exception:  # the normalizer does not accept an input of this shape
                continue
            x = x.movedim(axis, -1)
            bias = 0 if getattr(norm, "bias", None) is None else norm.bias
            for centred in (x - x.mean(-1, keepdim=True), x):
                expected = centred / centred.square().mean(-1, keepdim=True).sqrt() * norm.weight + bias
                # The normalizer's eps is unknown. The largest in use, 1e-3, changes y by 0.05 %.
                if y.shape == x.shape and torch.allclose(y, expected, rtol=1e-2, atol=1e-2):
                    return axis
    return None


def successor(norm: nn.Module, kind: type[ChannelNorm], dim: int, options: dict) -> ChannelNorm:
    weight, bias = norm.weight, getattr(norm, "bias", None)
    new = kind(len(weight), bias=bias is not None, dim=dim, device=weight.device, dtype=weight.dtype, **options)
    if has_running_statistics(norm) and not weight.is_meta:
        take_over(norm, new)
    new.weight, new.bias = weight, bias
    return new.train(norm.training)


@torch.no_grad()
def take_over(norm: nn.Module, new: ChannelNorm) -> None:
    """Takes over a BatchNorm's statistics, so that weight * x / sqrt(run_var + eps) + bias equals the BatchNorm's
    result at inference."""
    mean, variance = norm.running_mean.double(), norm.running_var.double()
    if not mean.any() and (variance == 1).all():
        return  # the BatchNorm has not been trained
    if norm.bias is None:
        raise Refusal("has running means but no bias that could absorb them")
    second_moment, root = variance + mean.square(), (variance + norm.eps).sqrt()
    new.run_var.copy_(second_moment)
    norm.bias.copy_(norm.bias - norm.weight * mean / root)
    norm.weight.copy_(norm.weight * (second_moment + new.eps).sqrt() / root)
    new.note_state()
