"""Models with the module names of timm and nanoGPT, and normalizers as these projects write them."""
import torch
from torch import nn
from torch.nn.functional import layer_norm

from pytorch_gpt import Gpt
from pytorch_vit import Vit


def config(**model):
    return {"model": {"width": 8, "ffn_width": 32, "heads": 2, "layers": 2, "pre_norm": True, "activation": "gelu",
                      **model}, "norm": {"name": "ln"}}


def vit():
    return Vit(config(image_size=8, patch=4, classes=3, pooling="cls", qkv_bias=True))


class GptLayerNorm(nn.Module):
    """nanoGPT's LayerNorm, whose bias is optional."""

    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        return layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


def gpt(bias=False):
    """Returns a GPT whose output projection and embedding share one weight."""
    model = Gpt(config(vocabulary=11, context=8, positions="learned"))
    model.wte.weight = model.lm_head.weight
    for layer in model.h:
        layer.ln_1, layer.ln_2 = GptLayerNorm(8, bias), GptLayerNorm(8, bias)
    model.ln_f = GptLayerNorm(8, bias)
    return model


class LayerNorm2d(nn.LayerNorm):
    """timm's LayerNorm over axis 1 of images [B, C, H, W]."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


VIT_READERS = {"norm1": "attn.qkv", "norm2": "mlp.fc1", "norm": "head"}
GPT_READERS = {"ln_1": "attn.c_attn", "ln_2": "mlp.c_fc", "ln_f": "lm_head"}


def train(model, inputs, targets, steps, rate=1e-2):
    """Trains on one batch and returns the losses of `steps` updates."""
    optimizer, losses = torch.optim.Adam(model.parameters(), rate), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
