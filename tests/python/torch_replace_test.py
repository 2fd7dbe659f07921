"""Tests replace_norms() of foldgrad_torch. Models of PyTorch, timm and nanoGPT must train after the replacement.
Other normalizers must be refused, with a reason."""
from setting import expect, expect_error, largest_difference, require, run_tests

require("torch", "safetensors")
import torch  # noqa: E402
from foldgrad_torch import MABN, UN, real_tokens, replace_norms  # noqa: E402
from torch import nn  # noqa: E402
from torch_blocks import LayerNorm2d, gpt, train, vit  # noqa: E402


def norms_of(model):
    return [module for module in model.modules() if isinstance(module, UN)]


def in_an_encoder():
    """Checks nn.TransformerEncoder: UN must train, ignore padding, and avoid PyTorch's fast path for LayerNorm."""
    torch.manual_seed(5)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0, batch_first=True)

    def encoder():
        model = nn.TransformerEncoder(layer, 2)
        report = replace_norms(model, warmup=3)
        expect(len(report.done) == 4 and not report.refused, f"4 normalizers must be replaced:\n{report}")
        return model

    model = encoder()
    optimizer, losses = torch.optim.Adam(model.parameters(), 1e-2), []
    x, target = torch.randn(4, 6, 8), torch.randn(4, 6, 8)
    mask = torch.arange(6) < torch.tensor([[6], [5], [3], [2]])
    for _ in range(60):
        optimizer.zero_grad()
        with real_tokens(model, mask):
            loss = (model(x, src_key_padding_mask=~mask) - target)[mask].square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    expect(losses[-1] < 0.5 * losses[0], f"the loss went from {losses[0]:.3f} to {losses[-1]:.3f}")
    expect(all(norm.mask is None for norm in norms_of(model)), "real_tokens must remove its masks")
    states = []
    for padding in (0.0, 1e3):
        copy = encoder()
        copy.load_state_dict(model.state_dict())
        with real_tokens(copy, mask):
            copy(torch.where(mask[..., None], x, padding), src_key_padding_mask=~mask)
        states.append(copy.state_dict())
    expect(all(torch.equal(states[0][name], states[1][name]) for name in states[0]), "padding reached the statistics")
    model.eval()
    slow = model(x)
    with torch.no_grad():
        fast = model(x)
        padded = model(x, src_key_padding_mask=~mask)
    expect(largest_difference(fast, slow) <= 1e-6,
           "inference without gradients differs: did the fast path for LayerNorm run?")
    expect(padded.shape == x.shape and padded[mask].isfinite().all(), "inference with padding must give finite numbers")


def in_models_of_others():
    """Checks that models of other projects train beyond the warm-up and keep their parameter objects. So an
    optimizer made before the replacement stays valid."""
    torch.manual_seed(6)
    cases = [(vit(), torch.randn(6, 8, 8, 3), torch.randint(3, (6,)), 5, True),
             (gpt(), torch.randint(11, (4, 7)), torch.randint(11, (4, 7)), 5, False),
             (gpt(bias=True), torch.randint(11, (4, 7)), torch.randint(11, (4, 7)), 5, True)]
    for model, inputs, targets, count, bias in cases:
        name, parameters = type(model).__name__, list(model.parameters())
        report = replace_norms(model, warmup=6)
        expect(len(report.done) == count and not report.refused,
               f"{name}: {count} normalizers must be replaced:\n{report}")
        expect(all((norm.bias is not None) == bias for norm in norms_of(model)),
               f"{name}: only norms that had a bias must have one")
        expect({id(p) for p in model.parameters()} == {id(p) for p in parameters},
               f"{name}: the parameters must stay the same objects")
        losses = train(model, inputs, targets, 40)
        expect(losses[-1] < 0.5 * losses[0], f"{name}: the loss went from {losses[0]:.3f} to {losses[-1]:.3f}")
        expect(all(norm.iters == 40 for norm in norms_of(model)), f"{name}: each normalizer must count 40 iterations")


class RmsNorm(nn.Module):
    def __init__(self, width, offset):
        super().__init__()
        self.weight, self.offset = nn.Parameter(torch.randn(width)), offset

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * (self.offset + self.weight)


class SquaredNorm(nn.LayerNorm):
    """Equals nn.LayerNorm as long as its weight is 1."""

    def forward(self, x):
        return nn.functional.layer_norm(x, self.normalized_shape, self.weight ** 2, self.bias)


class FirstNorm(nn.LayerNorm):
    """A LayerNorm over axis 1 of [B, C, T]."""

    def forward(self, x):
        return super().forward(x.mT).mT


class BatchNormAct(nn.BatchNorm2d):
    """timm's BatchNorm with an activation as a child module."""

    def __init__(self, width):
        super().__init__(width)
        self.drop, self.act = nn.Identity(), nn.ReLU(inplace=True)

    def forward(self, x):
        return self.act(self.drop(super().forward(x)))


class LayerNormAct(nn.LayerNorm):
    def __init__(self, width):
        super().__init__(width)
        self.act = nn.GELU()

    def forward(self, x):
        return self.act(super().forward(x))


class BN(nn.BatchNorm2d):
    def forward(self, x):
        return super().forward(x).relu()


class GN(nn.GroupNorm):
    pass


class LN(nn.LayerNorm):
    """A LayerNorm whose name does not contain "norm"."""


class Scaled(nn.Module):
    """Computes a LayerNorm, but its name does not say so."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return nn.functional.layer_norm(x, self.weight.shape, self.weight)


class LayerScale(Scaled):
    def forward(self, x):
        return x * self.weight


class Frozen(nn.Module):
    """Like torchvision's FrozenBatchNorm2d, in which even weight and bias are buffers."""

    def __init__(self):
        super().__init__()
        for name in ("weight", "bias", "running_mean", "running_var"):
            self.register_buffer(name, torch.rand(4))


class PreNorm(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner


def by_what_they_compute():
    """Checks which normalizers are replaced, over which axis they then normalize, and why the others are refused."""
    shared = nn.LayerNorm(4)
    model = nn.ModuleDict({
        "layer": nn.LayerNorm(4, eps=1e-3), "rms": nn.RMSNorm(4), "own_rms": RmsNorm(4, 0),
        "in": PreNorm(nn.LayerNorm(4)), "batch1": nn.BatchNorm1d(4), "batch2": nn.BatchNorm2d(4),
        "three": nn.LayerNorm(3),
        "axis_1": LayerNorm2d(4), "first": FirstNorm(3), "squared": SquaredNorm(4), "gemma": RmsNorm(4, 1),
        "two_axes": nn.LayerNorm((3, 4)),
        "plain": nn.LayerNorm(4, elementwise_affine=False), "group": nn.GroupNorm(2, 4),
        "instance": nn.InstanceNorm2d(4, affine=True), "lazy": nn.LazyBatchNorm1d(), "a": shared, "b": shared,
        "batch_act": BatchNormAct(4), "layer_act": LayerNormAct(4), "renamed": BN(4), "groups": GN(2, 4), "frozen": Frozen(),
        "called_ln": LN(4), "called_scale": Scaled(4), "no_norm": nn.PReLU(4), "no_norm_too": LayerScale(4),
        "un": UN(4)})
    random = torch.get_rng_state()
    report = replace_norms(model, MABN, warmup=7, alpha=0.5)
    expect(torch.equal(random, torch.get_rng_state()), "the probe changed the user's random state")
    done = {"layer": -1, "rms": -1, "own_rms": -1, "in.inner": -1, "batch1": 1, "batch2": 1, "three": -1, "axis_1": 1,
            "first": 1, "called_ln": -1, "called_scale": -1}
    expect({name: model.get_submodule(name).dim for name in report.done} == done, f"replaced:\n{report}")
    expect(type(model["layer"]) is MABN and (model["layer"].warmup, model["layer"].alpha) == (7, 0.5), "wrong options")
    expect(report.done["batch2"] == "BatchNorm2d -> MABN(4) over axis 1", report.done["batch2"])
    refused = {"squared": "SquaredNorm: computes neither", "gemma": "RmsNorm: computes neither LayerNorm nor",
               "two_axes": "it has weight [3, 4], bias [3, 4]", "plain": "it has none",
               "group": "GroupNorm: computes neither", "instance": "InstanceNorm2d: ",
               "batch_act": "BatchNormAct: is not a plain BatchNorm1d", "layer_act": "LayerNormAct: computes neither",
               "renamed": "BN: is not a plain BatchNorm1d", "groups": "GN: computes neither",
               "frozen": "Frozen: needs a weight with one axis",
               "lazy": "LazyBatchNorm1d: is lazy: its width is not known before the first pass",
               "a": "is the same module as b: their statistics would mix"}
    expect(report.refused.keys() == refused.keys(), f"refused:\n{report}")
    for name, reason in refused.items():
        expect(reason in report.refused[name], f"{name}: must say '{reason}', says '{report.refused[name]}'")
        expect(type(model[name]).__name__ in report.refused[name], f"{name} was replaced although it was refused")
    expect("done     batch1        BatchNorm1d -> MABN(4) over axis 1" in str(report).splitlines(),
           f"wrong text of the report:\n{report}")


def nothing_to_replace():
    for message, model in [("Linear has no normalizer that can be replaced", nn.Linear(2, 2)),
                           ("this LayerNorm is not part of another module; construct UN(...)", nn.LayerNorm(2)),
                           ("be replaced; it already has 1 of this package", nn.Sequential(UN(2))),
                           ("refused  0  LayerNorm: needs a weight", nn.Sequential(nn.LayerNorm((2, 2))))]:
        expect_error(ValueError, message, lambda: replace_norms(model))
    expect_error(ValueError, "has no normalizer", lambda: replace_norms(gpt(), where=lambda name, norm: "x" in name))
    expect_error(ValueError, "LayerNorm: computes neither LayerNorm nor RMSNorm over axis 2",
                 lambda: replace_norms(nn.Sequential(nn.LayerNorm(4)), dim=2))
    report = replace_norms(gpt(), where=lambda name, norm: name.endswith("ln_1"))
    expect(list(report.done) == ["h.0.ln_1", "h.1.ln_1"] and not report.refused,
           f"only ln_1 must be replaced:\n{report}")


run_tests(__name__, "replace_norms replaces what it can and says what it cannot", in_an_encoder, in_models_of_others,
          by_what_they_compute, nothing_to_replace)
