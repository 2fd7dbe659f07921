#!/usr/bin/env python3
"""foldgrad's Tokens-to-Token vision Transformer, written out in PyTorch.

    examples/pytorch_t2t.py MODEL IN.safetensors OUT.safetensors

computes the same results as `foldgrad run MODEL --input IN.safetensors --output OUT.safetensors`. Parameters have the
names and shapes of yitu-opensource/T2T-ViT. MODEL is a model directory or a run. If it is a run, its best checkpoint is
used, or the latest one if there is no best. normalizers.py has the normalizers, and pytorch_vit.py has the layers. The
computation is in torch.float32, or in float64 with --dtype float64.
"""
import torch
from torch import nn

from model_files import load_config, load_values, model_directory, run_program
from normalizers import make_norm
from pytorch_model import ACTIVATIONS
from pytorch_vit import Block, normalized, pooled


class TokenModule(nn.Module):
    def __init__(self, config, name, width, fc1, fc2):
        super().__init__()
        e = config["model"]["token_width"]
        self.norm1, self.norm2 = make_norm(config, f"{name}.norm1", width), make_norm(config, f"{name}.norm2", e)
        self.mlp = nn.ModuleDict({fc1: nn.Linear(e, e), fc2: nn.Linear(e, e)})
        self.activation = ACTIVATIONS[config["model"]["activation"]]

    def forward(self, x):
        x = self.attend(self.norm1(x))
        first, last = self.mlp.values()
        return x + last(self.activation(first(self.norm2(x))))


class Performer(TokenModule):
    def __init__(self, config, name, width):
        super().__init__(config, name, width, "0", "2")
        e = config["model"]["token_width"]
        self.kqv, self.proj = nn.Linear(width, 3 * e), nn.Linear(e, e)
        self.w = nn.Parameter(torch.zeros(e // 2, e), requires_grad=False)

    def features(self, x):
        return torch.exp(x @ self.w.T - (x * x).sum(-1, keepdim=True) / 2) / len(self.w) ** 0.5

    def attend(self, x):
        k, q, v = self.kqv(x).chunk(3, -1)
        f_k, f_q = self.features(k), self.features(q)
        y = f_q @ (f_k.transpose(1, 2) @ v) / (f_q @ f_k.sum(1)[..., None] + 1e-8)
        return v + self.proj(y)


class TokenTransformer(TokenModule):
    def __init__(self, config, name, width):
        super().__init__(config, name, width, "fc1", "fc2")
        m = config["model"]
        e = m["token_width"]
        self.attn = nn.ModuleDict({"qkv": nn.Linear(width, 3 * e, bias=m.get("qkv_bias", False)),
                                   "proj": nn.Linear(e, e)})

    def attend(self, x):
        q, k, v = self.attn["qkv"](x).chunk(3, -1)
        p = torch.softmax(q @ k.transpose(1, 2) * x.shape[-1] ** -0.5, -1)  # the scale depends on the input's width
        return v + self.attn["proj"](p @ v)


class TokensToToken(nn.Module):
    def __init__(self, config):
        super().__init__()
        m = config["model"]
        self.unfolds = list(zip(m["kernels"], m["strides"], m["paddings"]))
        module = Performer if m["token_attention"] == "performer" else TokenTransformer
        widths = [channels * kernel ** 2 for channels, kernel in zip([3] + 2 * [m["token_width"]], m["kernels"])]
        self.attention1 = module(config, "tokens_to_token.attention1", widths[0])
        self.attention2 = module(config, "tokens_to_token.attention2", widths[1])
        self.project = nn.Linear(widths[2], m["width"])

    def forward(self, x):
        """Returns the tokens [B, tokens, width] of images [B, 3, S, S]."""
        for (kernel, stride, padding), module in zip(self.unfolds, (self.attention1, self.attention2, self.project)):
            if x.dim() == 3:  # x is [B, N, C], the pixels of a square map
                side = round(x.shape[1] ** 0.5)
                x = x.transpose(1, 2).unflatten(2, (side, side))
            x = module(nn.functional.unfold(x, kernel, padding=padding, stride=stride).transpose(1, 2))
        return x


class T2t(nn.Module):
    def __init__(self, config):
        super().__init__()
        m = self.config = config["model"] | {"pre_norm": True}
        config = config | {"model": m}
        cls, side = m["pooling"] == "cls", m["image_size"]
        for kernel, stride, padding in zip(m["kernels"], m["strides"], m["paddings"]):
            side = (side + 2 * padding - kernel) // stride + 1
        self.tokens_to_token = TokensToToken(config)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, m["width"])) if cls else None
        self.pos_embed = nn.Parameter(torch.zeros(1, side ** 2 + cls, m["width"]), requires_grad=False)
        self.blocks = nn.ModuleList(Block(config, f"blocks.{i}") for i in range(m["layers"]))
        self.norm = make_norm(config, "norm")
        self.attention_pool = nn.Linear(m["width"], 1) if m["pooling"] == "sequence" else None
        self.head = nn.Linear(m["width"], m["classes"])

    def normalized(self, images):
        return normalized(images, self.config, self.pos_embed.dtype)

    def forward(self, images):
        """Returns the logits [B, classes] of images [B, S, S, 3]."""
        x = self.tokens_to_token(self.normalized(images).permute(0, 3, 1, 2))
        if self.cls_token is not None:
            x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1)
        x = x + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(pooled(self.norm(x), self.config["pooling"], self.attention_pool))


def load_model(path, dtype=torch.float32):
    directory = model_directory(path)
    model = T2t(load_config(directory, "t2t")).to(dtype)
    model.load_state_dict(load_values(directory, model))
    return model.eval()


if __name__ == "__main__":
    run_program(__doc__, load_model, lambda model, given: {"logits": model(given["images"])})
