#!/usr/bin/env python3
"""foldgrad's vision Transformer, written out in PyTorch.

    examples/pytorch_vit.py MODEL IN.safetensors OUT.safetensors

computes the same results as `foldgrad run MODEL --input IN.safetensors --output OUT.safetensors`. Parameters have
timm's names and shapes. MODEL is a model directory or a run. If it is a run, its best checkpoint is used, or the latest
one if there is no best. normalizers.py has the normalizers. The computation is in torch.float32, or in float64 with
--dtype float64.
"""
import torch
from torch import nn

from model_files import load_config, load_values, model_directory, run_program
from normalizers import make_norm, make_residual, residual_sum
from pytorch_model import ACTIVATIONS


class StandardizedLinear(nn.Linear):
    """A linear layer with scaled weight standardization, which uses the unbiased variance: each row of the weight has
    mean 0 and norm |gain|."""

    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        self.gain = nn.Parameter(torch.ones(self.out_features))

    def forward(self, x):
        variance, mean = torch.var_mean(self.weight, 1, keepdim=True)
        scale = self.gain[:, None] / (variance * self.in_features).clamp(min=1e-4).sqrt()
        return nn.functional.linear(x, (self.weight - mean) * scale, self.bias)


STANDARDIZED = {"all": ("qkv", "out", "fc1", "fc2"), "qkv_fc1": ("qkv", "fc1"), "out_ffn": ("out", "fc1", "fc2"),
                "ffn": ("fc1", "fc2")}


def linear_of_blocks(m, matrix):
    standardized = m.get("weight_standardization") and matrix in STANDARDIZED[m.get("standardization_scope", "all")]
    return StandardizedLinear if standardized else nn.Linear


class Attention(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.heads, width = m["heads"], m["width"]
        self.qkv = linear_of_blocks(m, "qkv")(width, 3 * width, bias=m.get("qkv_bias", False))
        self.proj = linear_of_blocks(m, "out")(width, width)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        p = torch.softmax((q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5, -1)
        return self.proj((p @ v).transpose(1, 2).flatten(-2))


class Mlp(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.fc1 = linear_of_blocks(m, "fc1")(m["width"], m["ffn_width"])
        self.fc2 = linear_of_blocks(m, "fc2")(m["ffn_width"], m["width"])
        self.activation = ACTIVATIONS[m["activation"]]

    def forward(self, x):
        return self.fc2(self.activation(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, config, name):
        super().__init__()
        m = config["model"]
        self.pre_norm = m["pre_norm"]
        self.attn, self.mlp = Attention(m), Mlp(m)
        self.attn.residual = make_residual(config, f"{name}.attn")
        self.mlp.residual = make_residual(config, f"{name}.mlp")
        self.norm1, self.norm2 = make_norm(config, f"{name}.norm1"), make_norm(config, f"{name}.norm2")

    def forward(self, x):
        x = residual_sum(x, self.norm1, self.attn, self.pre_norm, self.attn.residual)
        return residual_sum(x, self.norm2, self.mlp, self.pre_norm, self.mlp.residual)


class PatchEmbed(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.proj = nn.Conv2d(3, m["width"], m["patch"], stride=m["patch"])

    def forward(self, images):
        return self.proj(images).flatten(2).transpose(1, 2)


def normalized(images, m, dtype):
    """Returns normalized images. Floating-point images must be normalized already."""
    if images.dtype != torch.uint8:
        return images.to(dtype)
    mean = torch.tensor(m.get("image_mean", [0] * 3), dtype=dtype)
    std = torch.tensor(m.get("image_std", [1] * 3), dtype=dtype)
    return (images.to(dtype) / 255 - mean) / std


def pooled(x, pooling, attention_pool):
    """Returns the input of the classifier, [B, C], for tokens x [B, T, C]."""
    if pooling == "sequence":
        return (torch.softmax(attention_pool(x), 1) * x).sum(1)
    return x[:, 0] if pooling == "cls" else x.mean(1)


class Vit(nn.Module):
    def __init__(self, config):
        super().__init__()
        m = self.config = config["model"]
        cls = m["pooling"] == "cls"
        tokens = (m["image_size"] // m["patch"]) ** 2 + cls
        self.patch_embed = PatchEmbed(m)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, m["width"])) if cls else None
        self.pos_embed = nn.Parameter(torch.zeros(1, tokens, m["width"]))
        self.blocks = nn.ModuleList(Block(config, f"blocks.{i}") for i in range(m["layers"]))
        fc_norm = m.get("fc_norm", False)
        self.norm = make_norm(config, "norm") if m["pre_norm"] and not fc_norm else nn.Identity()
        self.fc_norm = make_norm(config, "fc_norm") if fc_norm else nn.Identity()
        self.attention_pool = nn.Linear(m["width"], 1) if m["pooling"] == "sequence" else None
        self.head = nn.Linear(m["width"], m["classes"])

    def normalized(self, images):
        return normalized(images, self.config, self.pos_embed.dtype)

    def forward(self, images):
        """Returns the logits [B, classes] of images [B, S, S, 3]."""
        x = self.patch_embed(self.normalized(images).permute(0, 3, 1, 2))
        if self.cls_token is not None:
            x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1)
        x = x + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.fc_norm(pooled(self.norm(x), self.config["pooling"], self.attention_pool)))


def load_model(path, dtype=torch.float32):
    directory = model_directory(path)
    model = Vit(load_config(directory, "vit")).to(dtype)
    model.load_state_dict(load_values(directory, model))
    return model.eval()


if __name__ == "__main__":
    run_program(__doc__, load_model, lambda model, given: {"logits": model(given["images"])})
