"""Tests fold() on PyTorch's decoder layers, on nn.Transformer, and on encoders and decoders that a user connects."""
import copy

from setting import expect, expect_error, require, run_tests

require("torch", "safetensors")
import torch  # noqa: E402
from foldgrad_torch import fold, replace_norms  # noqa: E402
from torch import nn  # noqa: E402
from torch_fold_test import randomized, same_outputs  # noqa: E402

DOUBLE = {"dtype": torch.float64}
SITES = [f"{part}.layers.{i}.norm{j}" for part, count in (("encoder", 2), ("decoder", 3)) for i in (0, 1)
         for j in range(1, count + 1)]


def transformer(**options):
    model = nn.Transformer(8, 2, 2, 2, 16, batch_first=True, **{"norm_first": True, **options})
    replace_norms(model)
    return randomized(model)


def given():
    return torch.randn(3, 5, 8, **DOUBLE), torch.randn(3, 4, 8, **DOUBLE)


def layers():
    """Checks a layer and a stack. norm2 folds only into the queries of the cross-attention, since the keys and
    values come from the encoder."""
    torch.manual_seed(1)
    memory, x = given()
    for bias in (True, False):
        layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True, norm_first=True, bias=bias)
        stack = nn.TransformerDecoder(layer, 2, norm=nn.LayerNorm(8, bias=bias))
        replace_norms(stack)
        _, report = same_outputs("layer", randomized(copy.deepcopy(stack.layers[0])), x, memory,
                                 done=["norm1", "norm2", "norm3"])
        expect(report.done["norm2"] == "into multihead_attn.query", report.done["norm2"])
        same_outputs("stack", randomized(stack), x, memory, done=[s[8:] for s in SITES if "decoder" in s],
                     refused=["norm"])
    post = transformer(norm_first=False)
    _, report = same_outputs("post-norm", post, *given(), done=["encoder.norm"], refused=SITES + ["decoder.norm"])
    expect("post-norm: the residual sum" in report.refused["decoder.layers.1.norm3"], f"{report}")


class Translator(nn.Module):
    """A user's model around nn.Transformer."""

    def __init__(self, inside):
        super().__init__()
        self.inside, self.head = inside, nn.Linear(8, 3).double()

    def forward(self, source, target):
        return self.head(self.inside(source, target))


class Pair(nn.Module):
    """A user's model that connects an encoder and a decoder. Both contain names such as layers.0.norm1."""

    def __init__(self, inside):
        super().__init__()
        self.encoder, self.decoder, self.head = inside.encoder, inside.decoder, nn.Linear(8, 3).double()

    def forward(self, source, target):
        return self.head(self.decoder(target, self.encoder(source)))


def whole():
    """Checks nn.Transformer. encoder.norm folds into the keys and values of all decoder layers, and decoder.norm into
    layers after nn.Transformer, if there are any."""
    torch.manual_seed(2)
    model = transformer()
    _, report = same_outputs("alone", model, *given(), done=SITES[:4] + ["encoder.norm"] + SITES[4:],
                             refused=["decoder.norm"])
    expect("a layer outside of nn.Transformer" in report.refused["decoder.norm"], f"{report}")
    expect(report.done["encoder.norm"].endswith("decoder.layers.1.multihead_attn.value"), f"{report}")
    sites = [f"inside.{site}" for site in SITES]
    around = randomized(Translator(model))
    same_outputs("with a head", around, *given(),
                 done=sites[:4] + ["inside.encoder.norm"] + sites[4:] + ["inside.decoder.norm"])


def patterns():
    """Checks patterns with "*". They select norm2 in the decoder only, and the keys and values of all decoder
    layers."""
    torch.manual_seed(3)
    pair = randomized(Pair(transformer()))
    parts = [f"decoder.layers.*.multihead_attn.{part}" for part in ("key", "value")]
    done = SITES[:4] + ["encoder.norm"] + SITES[4:] + ["decoder.norm"]
    same_outputs("connected", pair, *given(), done=done, readers={"encoder.norm": parts})
    _, report = same_outputs("query", pair, *given(), done=done, readers={
        "encoder.norm": parts, "decoder.*.norm2": "decoder.*.multihead_attn.query"})
    expect(report.done["decoder.layers.1.norm2"] == "into decoder.layers.1.multihead_attn.query", f"{report}")
    others = ["decoder.layers.0.norm2", "decoder.layers.1.norm2"]
    _, report = same_outputs("all of it", pair, *given(), done=[s for s in done if s not in others + ["encoder.norm"]],
                             refused=["encoder.norm", *others],
                             readers={"encoder.norm": parts, "decoder.*.norm2": "decoder.*.multihead_attn"})
    expect("is cross-attention: its keys" in report.refused["decoder.layers.0.norm2"], f"{report}")
    expect_error(ValueError, "A key such as decoder.*.norm2 selects fewer",
                 lambda: fold(pair, {"norm2": "multihead_attn.query"}))


def other_widths():
    """Checks attention with keys and values of width 6 and queries of width 8, with and without biases."""
    torch.manual_seed(4)

    class Cross(nn.Module):
        def __init__(self, bias):
            super().__init__()
            self.norm, self.of_memory = nn.LayerNorm(8, bias=bias), nn.LayerNorm(6, bias=bias)
            self.attention = nn.MultiheadAttention(8, 2, bias=bias, kdim=6, vdim=6, batch_first=True)

        def forward(self, x, memory):
            memory = self.of_memory(memory)
            return x + self.attention(self.norm(x), memory, memory, need_weights=False)[0]

    for bias in (True, False):
        model = Cross(bias)
        replace_norms(model)
        _, report = same_outputs("widths", randomized(model), torch.randn(2, 3, 8, **DOUBLE),
                                 torch.randn(2, 5, 6, **DOUBLE), done=["norm", "of_memory"])
        expect(report.done["of_memory"] == "into attention.key, attention.value", f"{report}")


run_tests(__name__, "decoders fold", layers, whole, patterns, other_widths)
