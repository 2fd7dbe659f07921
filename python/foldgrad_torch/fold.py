"""Folding: y = A x + B of a normalizer at inference goes into the linear layers that read y; nothing is left of it."""
from __future__ import annotations

import copy
import warnings
from collections import Counter
from typing import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from .channel_norm import ChannelNorm, WarmUpWarning, no_fast_path
from .replace import is_norm
from .report import Refusal, Report
from .warm_up import warm_up_report

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPARENT = (nn.Identity, nn.Dropout)  # at inference


class Folded(nn.Module):
    """The place of a folded normalizer: y = x. nn.TransformerEncoderLayer compares the eps of its normalizers."""
    eps = 0.0

    def __init__(self):
        super().__init__()
        self.register_forward_pre_hook(no_fast_path)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return x


def fold(module: nn.Module, readers: Mapping[str, str | Sequence[str]] | None = None) -> tuple[nn.Module, Report]:
    """Returns a copy of the module for inference, with every UN, MABN and PNStar folded that can be, and a report.

    The layers that read a normalizer are known in nn.TransformerEncoderLayer with norm_first=True and in nn.Sequential.
    In other modules `readers` names them: {"norm1": "attn.qkv", "norm2": ["mlp.fc1"]} are layers of the same block, and
    nothing else may read that normalizer. They may be nn.Linear, convolutions, and nn.MultiheadAttention where it is
    self-attention. All products are taken in f64 and rounded once.

    Raises ValueError if nothing was folded and for names in `readers` that do not exist. Warns of normalizers that have
    not left their warm-up. The copy is not to be trained.
    """
    warm_up = [row for row in warm_up_report(module) if not row.over]
    if warm_up:
        warnings.warn(f"fold: {len(warm_up)} normalizers have not reached the first iteration that averages: "
                      f"{warm_up[0].name} is at {warm_up[0].iterations} of {warm_up[0].first_average}",
                      WarmUpWarning, stacklevel=2)
    folded, report = copy.deepcopy(module), Report()
    for part in folded.modules():
        part.training = False
    edges = dict(known_edges(folded)) | dict(given_edges(folded, readers or {}))
    shared = Shared(folded, edges)
    for name, norm in list(folded.named_modules()):
        if is_norm(norm):
            report.refused[name] = f"{type(norm).__name__} is not a UN, MABN or PNStar; replace_norms comes first"
        if not isinstance(norm, ChannelNorm):
            continue
        try:
            layers = edges.get(name, "it is unknown which layers read it: name them in `readers`")
            if isinstance(layers, str):
                raise Refusal(layers)
            fold_one(folded, name, norm, layers, shared)
            report.done[name] = f"into {', '.join(layers)}"
        except Refusal as reason:
            report.refused[name] = str(reason)
    if not report.done:
        before = ": it has been folded before" if any(isinstance(part, Folded) for part in module.modules()) else ""
        raise ValueError(f"fold: {type(module).__name__} has nothing that can be folded{before}\n{report}")
    return folded, report


def known_edges(root: nn.Module) -> Iterator[tuple[str, list[str] | str]]:
    """Yields (normalizer, the layers that read it or why they cannot be given), by their names."""
    for name, module in root.named_modules():
        prefix = name + "." if name else ""
        if isinstance(module, nn.TransformerEncoderLayer):
            own = type(module) is nn.TransformerEncoderLayer
            why = ("a subclass of nn.TransformerEncoderLayer may use it differently" if not own else
                   None if module.norm_first else "post-norm: the residual sum reads it too")
            yield prefix + "norm1", why or [prefix + "self_attn"]
            yield prefix + "norm2", why or [prefix + "linear1"]
        elif type(module).forward is nn.Sequential.forward:
            norm = None
            for key, part in module._modules.items():  # named_children() has a module that comes again only once
                if norm and not isinstance(part, TRANSPARENT):
                    yield norm, [prefix + key]
                    norm = None
                if isinstance(part, ChannelNorm):
                    norm = prefix + key
                elif type(part) is nn.TransformerEncoder and isinstance(part.norm, ChannelNorm):
                    norm = f"{prefix}{key}.norm"
            if norm:
                yield norm, "it is the last of an nn.Sequential"


def given_edges(root: nn.Module, readers: Mapping[str, str | Sequence[str]]) -> Iterator[tuple[str, list[str]]]:
    norms = [name for name, module in root.named_modules() if isinstance(module, ChannelNorm)]
    for key, layers in readers.items():
        found = [name for name in norms if name == key or name.endswith("." + key)]
        if not found:
            raise ValueError(f"fold: readers: no UN, MABN or PNStar is named {key}; there are: {', '.join(norms)}")
        for name in found:
            block = name[:len(name) - len(key)]
            names = [block + layer for layer in ([layers] if isinstance(layers, str) else layers)]
            for layer in names:
                try:
                    root.get_submodule(layer)
                except AttributeError:
                    raise ValueError(f"fold: readers: {key} is read by {layer}, which does not exist") from None
            yield name, names


class Shared:
    """The layers in several places of a model or after several normalizers: a fold for one would change others."""

    def __init__(self, root: nn.Module, edges: Mapping[str, list[str] | str]):
        self.modules = Counter(id(module) for _, module in root.named_modules(remove_duplicate=False))
        self.readers = Counter(name for names in edges.values() if not isinstance(names, str) for name in names)
        self.parameters = Counter(id(p) for _, p in root.named_parameters(remove_duplicate=False))
        self.cross_attention = {f"{name}.multihead_attn".lstrip(".") for name, module in root.named_modules()
                                if isinstance(module, nn.TransformerDecoderLayer)}


def fold_one(root: nn.Module, name: str, norm: ChannelNorm, names: list[str], shared: Shared) -> None:
    """Folds all or nothing. Raises Refusal."""
    if shared.modules[id(norm)] > 1:
        raise Refusal("it is used in several places")
    with torch.no_grad():
        A, B = copy.deepcopy(norm).to("cpu", torch.float64).affine()
    if not (A.isfinite().all() and B.isfinite().all()):
        raise Refusal("its state or parameters are not finite")
    layers = [root.get_submodule(layer) for layer in names]
    changes = [change(layer, where, norm, A, B, shared) for layer, where in zip(layers, names)]
    for layer, new in zip(layers, changes):
        for key, value in new.items():
            setattr(layer, key, value)
    parent, _, last = name.rpartition(".")
    setattr(root.get_submodule(parent), last, Folded())


def change(layer: nn.Module, name: str, norm: ChannelNorm, A: Tensor, B: Tensor, shared: Shared) -> dict[str, Tensor]:
    """Returns the layer's new parameters. Raises Refusal."""
    if type(layer) not in (nn.Linear, nn.MultiheadAttention, *CONVOLUTIONS):
        raise Refusal(f"{name} is a {type(layer).__name__}, not a linear layer")
    prefix = "in_proj_" if type(layer) is nn.MultiheadAttention else ""
    dim, groups = 1 if type(layer) in CONVOLUTIONS else -1, getattr(layer, "groups", 1)
    W, b = layer._parameters.get(prefix + "weight"), getattr(layer, prefix + "bias")
    if W is None:
        raise Refusal(f"{name}: its weight is computed, or in parts")
    if name in shared.cross_attention:
        raise Refusal(f"{name} is cross-attention: its keys and values read something else")
    if shared.readers[name] > 1:
        raise Refusal(f"{name} reads several normalizers")
    if any(count > 1 for count in (shared.modules[id(layer)], shared.parameters[id(W)], shared.parameters[id(b)])):
        raise Refusal(f"{name} shares parameters with another place; give it its own first")
    if norm.dim != dim:
        raise Refusal(f"{name} reads axis {dim}, the channels are at {norm.dim}")
    if W.shape[1] * groups != len(A):
        raise Refusal(f"{name} reads {W.shape[1] * groups} channels, not {len(A)}")
    if B.any() and pads_with_zeros(layer):
        raise Refusal(f"{name} pads with zeros, which B does not reach")
    if B.any() and b is None and prefix:  # its fast path at inference needs all biases or none
        raise Refusal(f"{name} has no biases: make the normalizer with bias=False, or the attention with bias=True")
    new = products(W.detach(), b if b is None else b.detach(), A, B, groups)
    return {prefix + key: nn.Parameter(value.to(W.device, W.dtype), W.requires_grad) for key, value in new.items()}


def pads_with_zeros(layer: nn.Module) -> bool:
    return (type(layer) in CONVOLUTIONS and layer.padding_mode == "zeros"
            and layer.padding not in ("valid", (0,) * len(layer.kernel_size)))


def products(W: Tensor, b: Tensor | None, A: Tensor, B: Tensor, groups: int) -> dict[str, Tensor]:
    """Returns W' = W diag(A), b' = b + W B [FOLD-1], in f64. W: [out, in of a group, kernel...]; A and B: [in]."""
    grouped = W.to("cpu", torch.float64).unflatten(0, (groups, -1))  # [groups, out of a group, ...]
    per_input = (groups, 1, -1) + (1,) * (W.dim() - 2)
    new = {"weight": (grouped * A.view(per_input)).flatten(0, 1)}
    if B.any():
        added = (grouped * B.view(per_input)).flatten(2).sum(2).flatten()
        new["bias"] = added if b is None else added + b.to(added)
    return new
