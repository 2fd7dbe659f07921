"""Folding merges a normalizer's map at inference, y = A x + B, into the linear layers that read y, or into the layer
before the normalizer. The normalizer itself is then removed."""
from __future__ import annotations

import warnings
from collections import Counter
from typing import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from .affine import Affine, affine_map
from .channel_norm import ChannelNorm, WarmUpWarning, no_fast_path
from .copies import detached_copy
from .edges import CONVOLUTIONS, LINEAR, PARTS, Edges, find_edges
from .replace import is_norm
from .report import Refusal, Report
from .warm_up import warm_up_report


class Folded(nn.Module):
    """Takes the place of a folded normalizer: y = x.

    `rank` is the number of axes that x must have, or 0 if any number will do. For example, the channels of a
    BatchNorm1d are at axis 1, but those of nn.Linear are at the last axis. If the BatchNorm1d is folded into the
    nn.Linear, the result is only correct if x has two axes."""
    eps = 0.0  # nn.TransformerEncoderLayer compares the eps of its normalizers

    def __init__(self, rank: int = 0):
        super().__init__()
        self.rank = rank
        self.register_forward_pre_hook(no_fast_path)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if self.rank:  # torch.fx can trace this assertion, but not an exception that depends on x
            torch._assert(x.dim() == self.rank, f"Folded: x must have {self.rank} axes; with any other "
                          "number, the normalizer and the layer that it is folded into would have different channel "
                          "axes")
        return x


def common_rank(name: str, layer: nn.Module, affine: Affine) -> int:
    """Returns the number of axes of x for which the layer and the normalizer have the same channel axis, or 0 if
    any number will do. Raises Refusal if there is no such number."""
    convolution = type(layer) in CONVOLUTIONS
    if affine.axis == -1 and not convolution:
        return 0
    rank = 2 + len(layer.kernel_size) if convolution else 2
    if affine.axis != 1 or rank not in affine.ranks:
        raise Refusal(f"{name} has its channels at axis {1 if convolution else -1}, but the normalizer has them at "
                      f"{affine.axis}")
    return rank


def fold(module: nn.Module, readers: Mapping[str, str | Sequence[str]] | None = None,
         writers: Mapping[str, str] | None = None) -> tuple[nn.Module, Report]:
    """Returns a copy of the module for inference, in which every UN, MABN, PNStar and BatchNorm is folded if possible,
    and a report.

    A normalizer is folded into the linear layers that read it: nn.Linear, convolutions and nn.MultiheadAttention. If
    that is impossible, it is folded into the layer before it, which must be an nn.Linear or a convolution that nothing
    else reads. fold() finds these layers in PyTorch's Transformers, in nn.Sequential, and in the graph of module(x) if
    torch.fx can make it. Name any other layers in `readers` and `writers`. For example,
    readers={"norm1": "attn.qkv", "norm2": ["mlp.fc1"]} names layers in the normalizer's block, and
    writers={"bn1": "conv1"} names the layer before it. The parts of an attention module are named "attention.query",
    ".key" and ".value". A "*" matches any text, which must be the same if both names have
    a "*": {"decoder.*.norm2": "decoder.*.multihead_attn.query"}. Only the named layers may read the normalizer, and
    only the normalizer may read the layer before it. Products are computed in f64 and rounded once for each normalizer.

    Raises ValueError if nothing was folded, or if a name does not exist. Warns about normalizers that are still in
    their warm-up. The copy must not be trained.
    """
    warn_of_warm_up(module)
    folded, report = detached_copy(module), Report()
    for part in folded.modules():
        part.training = False
    norms = {name: part for name, part in folded.named_modules() if isinstance(part, ChannelNorm) or is_norm(part)}
    edges = find_edges(folded, norms, readers or {}, writers or {})
    shared = Shared(folded, edges)
    for name, norm in norms.items():
        try:
            report.done[name] = fold_one(folded, name, norm, edges, shared)
        except Refusal as reason:
            report.refused[name] = str(reason)
    if not report.done:
        before = ": it has been folded before" if any(isinstance(part, Folded) for part in module.modules()) else ""
        raise ValueError(f"fold: {type(module).__name__} has nothing that can be folded{before}\n{report}")
    return folded, report


def warn_of_warm_up(module: nn.Module) -> None:
    if isinstance(module, AveragedModel) and module.use_buffers:
        return  # its counters are averages and do not count iterations
    warm_up = [row for row in warm_up_report(module) if not row.over and module.get_submodule(row.name).lacking()]
    if warm_up:
        warnings.warn(f"fold: {len(warm_up)} normalizers have not reached the first iteration that uses averages: "
                      f"{warm_up[0].name} is at {warm_up[0].iterations} of {warm_up[0].first_average}",
                      WarmUpWarning, stacklevel=3)


def split_part(root: nn.Module, name: str) -> tuple[str, tuple[str, ...]]:
    """Returns the name of a layer and its parts: for attention, the parts that `name` selects; otherwise ("",)."""
    parent, _, last = name.rpartition(".")
    if last in PARTS and isinstance(root.get_submodule(parent), nn.MultiheadAttention):
        return parent, (last,)
    return name, PARTS if isinstance(root.get_submodule(name), nn.MultiheadAttention) else ("",)


class Shared:
    """Counts the uses of layers and parameters. A fold must not change a layer that is used in several places or reads
    several normalizers."""

    def __init__(self, root: nn.Module, edges: Edges):
        self.modules = Counter(id(module) for _, module in root.named_modules(remove_duplicate=False))
        self.parameters = Counter(id(p) for _, p in root.named_parameters(remove_duplicate=False))
        found = [split_part(root, name) for names in edges.readers.values() if not isinstance(names, str)
                 for name in names]
        self.readers = Counter((name, part) for name, parts in found for part in parts)
        self.cross_attention = {f"{name}.multihead_attn".lstrip(".") for name, module in root.named_modules()
                                if isinstance(module, nn.TransformerDecoderLayer)}

    def refuse(self, name: str, layer: nn.Module, W: Tensor | None, b: Tensor | None) -> None:
        if W is None:
            raise Refusal(f"{name}: its weight is computed, so it is not a parameter")
        if any(count > 1 for count in (self.modules[id(layer)], self.parameters[id(W)], self.parameters[id(b)])):
            raise Refusal(f"{name} shares parameters with another layer; give it its own parameters first")


def fold_one(root: nn.Module, name: str, norm: nn.Module, edges: Edges, shared: Shared) -> str:
    """Folds the normalizer into all layers that read it, or into the layer before it. Returns a text that names the
    layers. Raises Refusal, and changes nothing, if neither is possible."""
    if shared.modules[id(norm)] > 1:
        raise Refusal("it is used in several places")
    affine, writer = affine_map(norm), edges.writers.get(name)
    if writer and type(before := root.get_submodule(writer)) in CONVOLUTIONS:
        affine = affine._replace(ranks=affine.ranks & {2 + len(before.kernel_size)})
    names = edges.readers.get(name, "it is unknown which layers read it: name them in `readers`")
    try:
        if isinstance(names, str) or not names:
            raise Refusal(names or "`readers` names no layer for it")
        parts: dict[str, tuple[str, ...]] = {}
        for place in names:
            layer, added = split_part(root, place)
            parts[layer] = parts.get(layer, ()) + added
        new = [change(root, layer, added, affine, shared) for layer, added in parts.items()]
        if len({rank for _, rank, _ in new}) > 1:
            raise Refusal(f"{' and '.join(parts)} have their channels at different axes")
        where = f"into {', '.join(names)}"
    except Refusal as reason:
        if writer is None:
            raise
        try:
            new, where = [change_before(root, writer, affine, shared)], f"back into {writer}"
        except Refusal as second:
            raise Refusal(f"{reason}; {second}") from None
    for layer, rank, parameters in new:
        for key, value in parameters.items():
            setattr(layer, key, value)
    parent, _, last = name.rpartition(".")
    place = Folded(rank)
    setattr(root.get_submodule(parent), last, nn.Sequential(place, *affine.rest) if affine.rest else place)
    return where


def change(root: nn.Module, name: str, parts: tuple[str, ...], affine: Affine,
           shared: Shared) -> tuple[nn.Module, int, dict[str, Tensor]]:
    """Returns the layer, the number of axes that x must have, and the layer's parameters with A x + B folded into these
    parts. Raises Refusal if the layer does not permit this."""
    layer = root.get_submodule(name)
    if type(layer) not in LINEAR:
        raise Refusal(f"{name} is a {type(layer).__name__}, not a linear layer")
    if affine.rest:
        raise Refusal(f"it ends with a {type(affine.rest[-1]).__name__}, so {name} does not read A x + B")
    if parts == PARTS and name in shared.cross_attention:
        raise Refusal(f"{name} is cross-attention: its keys and values come from another input; name {name}.query")
    if any(shared.readers[name, part] > 1 for part in parts):
        raise Refusal(f"{name} reads several normalizers")
    A, B, attention = affine.A, affine.B, isinstance(layer, nn.MultiheadAttention)
    rank, groups = common_rank(name, layer, affine), getattr(layer, "groups", 1)
    if B.any() and pads_with_zeros(layer):
        raise Refusal(f"{name} pads with zeros, but folding would pad with the map's offset B")
    new: dict[str, Tensor] = {}
    for part in parts:
        key, rows = weight_of(layer, part)
        bias_key = "in_proj_bias" if attention else "bias"
        W, b = layer._parameters.get(key), getattr(layer, bias_key)
        shared.refuse(name, layer, W, b)
        if W.shape[1] * groups != len(A):
            raise Refusal(f"{name} reads {W.shape[1] * groups} channels, not {len(A)}")
        if B.any() and b is None and attention:  # the attention's fast path at inference needs all biases or none
            raise Refusal(f"{name} has no biases: make the normalizer with bias=False, or the attention with bias=True")
        whole, biases = new.get(key, wide(W)), new.get(bias_key, None if b is None else wide(b))
        scaled, added = products(whole[rows], A, B, groups)
        new[key] = whole.clone() if key not in new else whole
        new[key][rows] = scaled
        if B.any():
            start = PARTS.index(part) * len(added) if attention else 0
            new[bias_key] = torch.zeros_like(added) if biases is None else biases.clone()
            new[bias_key][start:start + len(added)] += added
    return layer, rank, rounded(layer, new)


def weight_of(layer: nn.Module, part: str) -> tuple[str, slice]:
    """Returns the name of the weight and, for a part of an attention module, the rows that belong to this part."""
    if not part:
        return "weight", slice(None)
    if layer.in_proj_weight is None:
        return f"{part[0]}_proj_weight", slice(None)
    start = PARTS.index(part) * layer.embed_dim
    return "in_proj_weight", slice(start, start + layer.embed_dim)


def change_before(root: nn.Module, name: str, affine: Affine,
                  shared: Shared) -> tuple[nn.Module, int, dict[str, Tensor]]:
    """Returns the layer before the normalizer, the number of axes that x must have, and the layer's new parameters:
    W' = diag(A) W and b' = A b + B. Raises Refusal if the layer does not permit this."""
    layer = root.get_submodule(name)
    if type(layer) not in (nn.Linear, *CONVOLUTIONS):
        raise Refusal(f"{name}, the layer before it, is a {type(layer).__name__}, not a linear layer")
    W, b = layer._parameters.get("weight"), layer.bias
    shared.refuse(name, layer, W, b)
    rank = common_rank(f"{name}, the layer before it,", layer, affine)
    if W.shape[0] != len(affine.A):
        raise Refusal(f"{name}, the layer before it, returns {W.shape[0]} channels, not {len(affine.A)}")
    A, B = affine.A, affine.B
    new = {"weight": wide(W) * A.view(-1, *[1] * (W.dim() - 1))}
    if b is not None or B.any():
        new["bias"] = B if b is None else A * wide(b) + B
    return layer, rank, rounded(layer, new)


def wide(parameter: Tensor) -> Tensor:
    return parameter.detach().to("cpu", torch.float64)


def rounded(layer: nn.Module, new: dict[str, Tensor]) -> dict[str, Tensor]:
    like = next(layer.parameters())
    return {key: nn.Parameter(value.to(like.device, like.dtype), like.requires_grad) for key, value in new.items()}


def pads_with_zeros(layer: nn.Module) -> bool:
    return (type(layer) in CONVOLUTIONS and layer.padding_mode == "zeros"
            and layer.padding not in ("valid", (0,) * len(layer.kernel_size)))


def products(W: Tensor, A: Tensor, B: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Returns W diag(A) and W B [FOLD-1]. W is [out, in of a group, kernel...]; A and B are [in]."""
    grouped = W.unflatten(0, (groups, -1))  # [groups, out of a group, ...]
    per_input = (groups, 1, -1) + (1,) * (W.dim() - 2)
    return (grouped * A.view(per_input)).flatten(0, 1), (grouped * B.view(per_input)).flatten(2).sum(2).flatten()
