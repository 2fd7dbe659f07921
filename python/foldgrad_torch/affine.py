"""Per-channel affine maps at inference. The normalizers of this package and those with running statistics have one."""
from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from .channel_norm import ChannelNorm
from .copies import detached_copy
from .report import Refusal


class Affine(NamedTuple):
    """The map y = rest(A x + B), with a factor A and an offset B for each channel. A and B are f64 on the CPU."""
    A: Tensor  # [C]
    B: Tensor  # [C]
    axis: int  # the channel axis; fold() supports 1 and -1
    ranks: set[int]  # if `axis` is 1, the numbers of axes that x may have
    rest: list[nn.Module]  # modules applied to A x + B, such as an activation


def has_running_statistics(norm: nn.Module) -> bool:
    return all(isinstance(getattr(norm, name, None), Tensor) for name in ("running_mean", "running_var"))


@torch.no_grad()
def affine_map(norm: nn.Module) -> Affine:
    """Returns the normalizer's map at inference. Raises Refusal if it is not a finite affine map."""
    if not isinstance(norm, ChannelNorm) and not has_running_statistics(norm):
        raise Refusal(f"{type(norm).__name__} is not a UN, MABN or PNStar; call replace_norms first. It has no "
                      "running statistics, so it is not an affine map at inference")
    norm = detached_copy(norm).to("cpu", torch.float64).eval()
    if isinstance(norm, ChannelNorm):
        A, B = norm.affine()
    else:
        weight, bias = (getattr(norm, name, None) for name in ("weight", "bias"))
        root = (norm.running_var + getattr(norm, "eps", 0.0)).sqrt()
        A = 1 / root if weight is None else weight / root
        B = -norm.running_mean * A if bias is None else bias - norm.running_mean * A
    if not (A.isfinite().all() and B.isfinite().all()):
        raise Refusal("its state or parameters are not finite")
    return Affine(A, B, norm.dim, {3, 4, 5}, []) if isinstance(norm, ChannelNorm) else tried(norm, A, B)


def tried(norm: nn.Module, A: Tensor, B: Tensor) -> Affine:
    """Returns the map A x + B, followed by the normalizer's children. For example, the rest of a timm BatchNormAct2d is
    its activation. Raises Refusal unless, on random inputs, the normalizer equals this map up to rounding."""
    rest, ranks, generator = list(norm.children()), set(), torch.Generator().manual_seed(1)
    for rank in (2, 3, 4, 5):
        # The number of examples differs from C. Otherwise, an InstanceNorm could take axis 0 for the channels.
        x = torch.randn(3 if len(A) == 2 else 2, len(A), *[3] * (rank - 2), generator=generator, dtype=torch.float64)
        shape = (1, -1) + (1,) * (rank - 2)
        try:
            y = norm(x)
            wanted = A.view(shape) * x + B.view(shape)
            rounding = 1e-9 * (1 + wanted.abs().max())
            for part in rest:
                wanted = part(wanted)
        except Exception:  # third-party code may raise anything, for example because it accepts only images
            continue
        if y.shape != x.shape or not torch.allclose(y, wanted, rtol=1e-9, atol=rounding):
            raise Refusal(f"{type(norm).__name__} does not compute A x + B from its statistics, weight and bias, "
                          "followed by its children")
        ranks.add(rank)
    if not ranks:
        raise Refusal(f"{type(norm).__name__} does not accept inputs with its {len(A)} channels at axis 1")
    return Affine(A, B, 1, ranks, rest)
