"""foldgrad's normalizers at inference, for examples/pytorch_*.py. docs/normalizers.md has the formulas.

Parameters and buffers have the same names as in model.safetensors and norm_state.safetensors. docs/pytorch.md explains
how to train UN in PyTorch.
"""
import torch
from torch import nn


class Affine(nn.Module):
    """Computes y = weight * x + bias. The normalizer `scale` has no bias."""

    def __init__(self, width, bias=True):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else 0.0

    def forward(self, x):
        return x * self.weight + self.bias


class Offline(Affine):
    """Computes y = A x + B with A = weight / sqrt(variance + eps) and B = bias - A * run_mean. Since A and B are
    constants for each channel, they can be folded into the next layer. `state` names the statistics from training: the
    variance, and the mean if the normalizer subtracts it."""

    def __init__(self, width, eps, state=("run_var",), clamped=False):
        super().__init__(width)
        self.eps, self.state, self.clamped = eps, state, clamped
        for name in state:
            self.register_buffer(name, torch.zeros(width) if name == "run_mean" else torch.ones(width))

    def forward(self, x):
        variance = getattr(self, self.state[0])
        A = self.weight / (variance.clamp_min(self.eps) if self.clamped else variance + self.eps).sqrt()
        return x * A + (self.bias - A * self.run_mean if "run_mean" in self.state else self.bias)


class RepBN(Offline):
    """Computes y = BN(x) + eta * x."""

    def __init__(self, width, eps):
        super().__init__(width, eps, ("run_var", "run_mean"))
        self.eta = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return super().forward(x) + self.eta * x


class PRepBN(nn.Module):
    """Computes RepBN: inference leaves out the layer normalization, even if its weight is not 0 yet."""

    def __init__(self, width, eps):
        super().__init__()
        self.eps, self.bn, self.ln = eps, Affine(width), nn.LayerNorm(width)
        self.bn.eta = nn.Parameter(torch.ones(()))
        self.register_buffer("run_mean", torch.zeros(width))
        self.register_buffer("run_var", torch.ones(width))

    def forward(self, x):
        A = self.bn.weight / (self.run_var + self.eps).sqrt()
        return x * (A + self.bn.eta) + (self.bn.bias - A * self.run_mean)


class PowerNorm(Offline):
    """Divides each group of channels by its root mean square, and then applies pn_star."""

    def __init__(self, width, eps, state, groups):
        super().__init__(width, eps, state)
        self.groups = groups

    def forward(self, x):
        g = x.unflatten(-1, (self.groups, -1))
        return super().forward((g / (g.square().mean(-1, keepdim=True) + self.eps).sqrt()).flatten(-2))


class RMSNorm(Affine):
    """Computes RMSNorm. The mean is over the first partial * width channels."""

    def __init__(self, width, eps, outside, partial, bias):
        super().__init__(width, bias)
        self.eps, self.outside, self.channels = eps, outside, int(partial * width)

    def forward(self, x):
        mean = x[..., :self.channels].square().mean(-1, keepdim=True)
        return super().forward(x / (mean.sqrt() + self.eps if self.outside else (mean + self.eps).sqrt()))


class CenterNorm(Affine):
    def forward(self, x):
        return super().forward((x - x.mean(-1, keepdim=True)) * (x.shape[-1] / (x.shape[-1] - 1)))


class Elementwise(Affine):
    """Applies tanh(alpha * x) for `dyt` or erf(alpha * x + shift) for `derf`, and then weight and bias."""

    def __init__(self, width, derf, bias):
        super().__init__(width, bias)
        self.alpha = nn.Parameter(torch.ones(()))
        if derf:
            self.shift = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        u = self.alpha * x
        return super().forward(torch.erf(u + self.shift) if hasattr(self, "shift") else torch.tanh(u))


class TokenGroupNorm(Affine):
    """Normalizes each group of a token's channels separately."""

    def __init__(self, width, eps, groups):
        super().__init__(width)
        self.eps, self.groups = eps, groups

    def forward(self, x):
        g = x.unflatten(-1, (self.groups, -1))
        return super().forward(nn.functional.layer_norm(g, g.shape[-1:], eps=self.eps).flatten(-2))


class Length(nn.Module):
    """Computes x / max(|x|, eps) times a number, which is learned for `scalenorm` and fixed for `fixnorm`."""

    def __init__(self, eps, factor):
        super().__init__()
        self.eps = eps
        self.scale = factor if factor else nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.scale * x / x.norm(dim=-1, keepdim=True).clamp_min(self.eps)


class DeepNorm(nn.LayerNorm):
    """Normalizes the sum residual_factor * x + branch, which residual_sum() computes."""

    def __init__(self, width, eps, encoder_layers, decoder_layers, stack):
        super().__init__(width, eps)
        N, M, in_decoder = encoder_layers, decoder_layers, stack == "decoder"
        if not (N and M):  # only one stack
            self.residual_factor = (2 * (M if in_decoder else N)) ** 0.25
        else:
            self.residual_factor = (3 * M) ** 0.25 if in_decoder else 0.81 * (N ** 4 * M) ** (1 / 16)


def residual_sum(x, norm, branch, pre_norm, residual=nn.Identity()):
    """Applies a sublayer. With pre-norm, the branch reads norm(x). With post-norm, `norm` is applied to the sum of
    residual(x) and the branch."""
    if isinstance(norm, DeepNorm):
        return norm(norm.residual_factor * x + branch(x))
    return x + branch(norm(x)) if pre_norm else norm(residual(x) + branch(x))


def make_residual(config, sublayer):
    """Makes the module that is applied to x before the residual sum of a sublayer such as "blocks.0.attn". In some
    folded models, it is a normalizer."""
    site = f"{sublayer}.residual"
    return make_norm(config, site) if site in config["norm"].get("at", {}) else nn.Identity()


def make_norm(config, site, channels=None):
    """Makes the normalizer that config.json specifies for a site such as "encoder.layers.0.final_layer_norm". It has
    `channels` channels, by default the model's width."""
    model, norm = config["model"], config["norm"]
    width, at = channels or model["width"], norm.get("at", {})
    if site in at:  # such a normalizer has default options
        name, o = at[site], {"encoder_layers": 6, "decoder_layers": 6}
    else:
        name, o = norm["name"], {"encoder_layers": model.get("encoder_layers", model.get("layers")),
                                 "decoder_layers": model.get("decoder_layers", 0),
                                 "stack": site.split(".")[0], **norm.get("options", {})}
    eps = o.get("eps", {"fixnorm": 1e-12, "rmsnorm": 1e-6}.get(name, 1e-5))
    phi = ("phi",) if o.get("mode") == "reference" else ("run_var",)
    bn = ("run_var", "run_mean")
    makers = {
        "un": lambda: Offline(width, eps), "mabn": lambda: Offline(width, eps), "qmbn": lambda: Offline(width, eps),
        "bn": lambda: Offline(width, eps, bn), "rbn": lambda: Offline(width, eps, bn, clamped=True),
        "repbn": lambda: RepBN(width, eps), "prepbn": lambda: PRepBN(width, eps),
        "pn_star": lambda: Offline(width, eps, phi),
        "pn": lambda: PowerNorm(width, eps, phi, o.get("groups", 1)),
        "ln": lambda: nn.LayerNorm(width, eps),
        "deepnorm": lambda: DeepNorm(width, eps, o["encoder_layers"], o["decoder_layers"], o.get("stack")),
        "rmsnorm": lambda: RMSNorm(width, eps, o.get("eps_place") == "outside", o.get("partial", 1.0),
                                   o.get("bias", False)),
        "scalenorm": lambda: Length(eps, None),
        "fixnorm": lambda: Length(eps, width ** 0.5 if o.get("length") == "sqrt_channels" else 1.0),
        "centernorm": lambda: CenterNorm(width),
        "dyt": lambda: Elementwise(width, False, o.get("bias", True)),
        "derf": lambda: Elementwise(width, True, o.get("bias", True)),
        "affine": lambda: Affine(width), "scale": lambda: Affine(width, bias=False), "none": nn.Identity}
    if o.get("axes") == "token":
        makers["groupnorm"] = lambda: TokenGroupNorm(width, eps, o.get("groups", 32))
    if name not in makers:
        raise NotImplementedError(f"this example does not support the normalizer {name} with these options; it "
                                  f"supports {', '.join(sorted(makers))}, and groupnorm with axes = token")
    return makers[name]()
