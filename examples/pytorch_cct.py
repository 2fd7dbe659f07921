#!/usr/bin/env python3
"""foldgrad's Compact Convolutional Transformer, written out in PyTorch.

    examples/pytorch_cct.py MODEL IN.safetensors OUT.safetensors

computes the same results as `foldgrad run MODEL --input IN.safetensors --output OUT.safetensors`. Parameters have the
names and shapes of SHI-Labs/Compact-Transformers. MODEL is a model directory or a run. If it is a run, its best
checkpoint is used, or the latest one if there is no best. normalizers.py has the normalizers, and pytorch_vit.py has
the attention. The computation is in torch.float32, or in float64 with --dtype float64.
"""
from collections import OrderedDict

import torch
from torch import nn

from model_files import load_config, load_values, model_directory, run_program
from normalizers import make_norm, make_residual
from pytorch_model import ACTIVATIONS
from pytorch_vit import Attention, linear_of_blocks, normalized, pooled


class Tokenizer(nn.Module):
    def __init__(self, config):
        super().__init__()
        m = config["model"]
        convs, kernel, hybrid = m["convs"], m["kernel"], m["stem"] == "hybrid"
        widths = [3] + [m["width"] >> (convs - 1 - i) if hybrid else 64 for i in range(convs - 1)] + [m["width"]]
        layers = []
        for i in range(convs):
            conv = nn.Conv2d(widths[i], widths[i + 1], kernel, max(1, kernel // 2 - 1), kernel // 2,
                             bias=hybrid and m.get("qkv_bias", False))
            if hybrid:
                norm = make_norm(config, f"tokenizer.conv_layers.{i}.norm", widths[i + 1])
                parts = [("norm", norm), ("act", nn.GELU()), ("pool", nn.MaxPool2d(2) if i else nn.Identity())]
            else:
                parts = [("act", nn.ReLU()), ("pool", nn.MaxPool2d(3, 2, 1))]
            layers.append(nn.ModuleDict(OrderedDict([("0", conv)] + parts)))
        self.conv_layers = nn.ModuleList(layers)

    def forward(self, x):
        """Returns the tokens [B, tokens, width] of images [B, 3, S, S]."""
        for layer in self.conv_layers:
            x = layer["0"](x)
            if "norm" in layer:  # normalizers take pixels as tokens
                x = layer["norm"](x.flatten(2).transpose(1, 2)).transpose(1, 2).unflatten(2, x.shape[2:])
            x = layer["pool"](layer["act"](x))
        return x.flatten(2).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, config, name):
        super().__init__()
        m = config["model"]
        self.published = m["block"] == "cct"
        self.pre_norm, self.norm1 = make_norm(config, f"{name}.pre_norm"), make_norm(config, f"{name}.norm1")
        self.self_attn = Attention(m)
        self.linear1 = linear_of_blocks(m, "fc1")(m["width"], m["ffn_width"])
        self.linear2 = linear_of_blocks(m, "fc2")(m["ffn_width"], m["width"])
        self.activation, self.mlp = ACTIVATIONS[m["activation"]], nn.Module()
        self.mlp.residual = make_residual(config, f"{name}.mlp")

    def forward(self, x):
        x = x + self.self_attn(self.pre_norm(x))
        n = self.norm1(x)
        return self.mlp.residual(n if self.published else x) + self.linear2(self.activation(self.linear1(n)))


class Classifier(nn.Module):
    def __init__(self, config, tokens):
        super().__init__()
        m = config["model"]
        self.pooling = m["pooling"]
        cls = self.pooling == "cls"
        self.class_emb = nn.Parameter(torch.zeros(1, 1, m["width"])) if cls else None
        self.positional_emb = nn.Parameter(torch.zeros(1, tokens + cls, m["width"]))
        self.blocks = nn.ModuleList(Block(config, f"classifier.blocks.{i}") for i in range(m["layers"]))
        self.norm = make_norm(config, "classifier.norm")
        self.attention_pool = nn.Linear(m["width"], 1) if self.pooling == "sequence" else None
        self.fc = nn.Linear(m["width"], m["classes"])

    def forward(self, x):
        if self.class_emb is not None:
            x = torch.cat([self.class_emb.expand(len(x), -1, -1), x], 1)
        x = x + self.positional_emb
        for block in self.blocks:
            x = block(x)
        return self.fc(pooled(self.norm(x), self.pooling, self.attention_pool))


class Cct(nn.Module):
    def __init__(self, config):
        super().__init__()
        m = self.config = config["model"]
        self.tokenizer = Tokenizer(config)
        with torch.no_grad():
            tokens = self.tokenizer(torch.zeros(1, 3, m["image_size"], m["image_size"])).shape[1]
        self.classifier = Classifier(config, tokens)

    def normalized(self, images):
        return normalized(images, self.config, self.classifier.positional_emb.dtype)

    def forward(self, images):
        """Returns the logits [B, classes] of images [B, S, S, 3]."""
        return self.classifier(self.tokenizer(self.normalized(images).permute(0, 3, 1, 2)))


def load_model(path, dtype=torch.float32):
    directory = model_directory(path)
    model = Cct(load_config(directory, "cct")).to(dtype)
    model.load_state_dict(load_values(directory, model))
    return model.eval()


if __name__ == "__main__":
    run_program(__doc__, load_model, lambda model, given: {"logits": model(given["images"])})
