"""Blocks as other projects have them, written for the tests: the names and the order of operations are theirs."""
import torch
from torch import nn
from torch.nn.functional import gelu, layer_norm, scaled_dot_product_attention


def heads(qkv, number):
    """[B, T, 3 C] -> three of [B, heads, T, C / heads]."""
    return (part.unflatten(-1, (number, -1)).transpose(1, 2) for part in qkv.chunk(3, -1))


class VitAttention(nn.Module):
    def __init__(self, width, number):
        super().__init__()
        self.qkv, self.proj, self.number = nn.Linear(width, 3 * width), nn.Linear(width, width), number

    def forward(self, x):
        return self.proj(scaled_dot_product_attention(*heads(self.qkv(x), self.number)).transpose(1, 2).flatten(2))


class VitMlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.fc2(gelu(self.fc1(x)))


class VitBlock(nn.Module):
    """timm's."""

    def __init__(self, width, number):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width, eps=1e-6), VitAttention(width, number)
        self.norm2, self.mlp = nn.LayerNorm(width, eps=1e-6), VitMlp(width)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    """timm's, with the class token pooled."""

    def __init__(self, width=8, number=2, depth=2, classes=3):
        super().__init__()
        self.patch_embed, self.cls_token = nn.Conv2d(3, width, 4, 4), nn.Parameter(torch.randn(1, 1, width))
        self.blocks = nn.Sequential(*(VitBlock(width, number) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, classes)

    def forward(self, image):
        x = self.patch_embed(image).flatten(2).transpose(1, 2)
        x = self.blocks(torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1))
        return self.head(self.norm(x)[:, 0])


class GptLayerNorm(nn.Module):
    """nanoGPT's, a class of its own for the sake of bias=False."""

    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        return layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class GptAttention(nn.Module):
    def __init__(self, width, number):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.number = number

    def forward(self, x):
        y = scaled_dot_product_attention(*heads(self.c_attn(x), self.number), is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class GptMlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        return self.c_proj(gelu(self.c_fc(x)))


class GptBlock(nn.Module):
    def __init__(self, width, number, bias):
        super().__init__()
        self.ln_1, self.attn = GptLayerNorm(width, bias), GptAttention(width, number)
        self.ln_2, self.mlp = GptLayerNorm(width, bias), GptMlp(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """nanoGPT's, with the embedding as output projection."""

    def __init__(self, words=11, width=8, number=2, depth=2, bias=False):
        super().__init__()
        self.wte = nn.Embedding(words, width)
        self.h = nn.ModuleList(GptBlock(width, number, bias) for _ in range(depth))
        self.ln_f, self.lm_head = GptLayerNorm(width, bias), nn.Linear(width, words, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, ids):
        x = self.wte(ids)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class LayerNorm2d(nn.LayerNorm):
    """timm's: a LayerNorm of images [B, C, H, W] over axis 1."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


VIT_READERS = {"norm1": "attn.qkv", "norm2": "mlp.fc1", "norm": "head"}
GPT_READERS = {"ln_1": "attn.c_attn", "ln_2": "mlp.c_fc", "ln_f": "lm_head"}


def train(model, inputs, targets, steps, rate=1e-2):
    """The losses of `steps` updates on one batch."""
    optimizer, losses = torch.optim.Adam(model.parameters(), rate), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
