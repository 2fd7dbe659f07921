#!/usr/bin/env python3
"""A decoder-only Transformer of foldgrad in PyTorch: the whole model, written out.

    examples/pytorch_gpt.py MODEL IN.safetensors OUT.safetensors

computes what `foldgrad run MODEL --input IN.safetensors --output OUT.safetensors` computes. Parameters have nanoGPT's
names and shapes. MODEL is a model directory or a run, whose best checkpoint is used, or else the latest; normalizers.py
has the normalizers. Everything is in torch.float32 unless --dtype says float64.
"""
import torch
from torch import nn

from model_files import load_config, load_values, model_directory, run_program, sinusoids
from normalizers import make_norm, make_residual, residual_sum
from pytorch_model import ACTIVATIONS


class Attention(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.heads, width = m["heads"], m["width"]
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        """Lets every token attend to itself and to those before it."""
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.c_attn(x).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(-2))


class Mlp(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(m["width"], m["ffn_width"]), nn.Linear(m["ffn_width"], m["width"])
        self.activation = ACTIVATIONS[m["activation"]]

    def forward(self, x):
        return self.c_proj(self.activation(self.c_fc(x)))


class Layer(nn.Module):
    def __init__(self, config, name):
        super().__init__()
        m = config["model"]
        self.pre_norm = m["pre_norm"]
        self.attn, self.mlp = Attention(m), Mlp(m)
        self.attn.residual = make_residual(config, f"{name}.attn")
        self.mlp.residual = make_residual(config, f"{name}.mlp")
        self.ln_1, self.ln_2 = make_norm(config, f"{name}.ln_1"), make_norm(config, f"{name}.ln_2")

    def forward(self, x):
        x = residual_sum(x, self.ln_1, self.attn, self.pre_norm, self.attn.residual)
        return residual_sum(x, self.ln_2, self.mlp, self.pre_norm, self.mlp.residual)


class Gpt(nn.Module):
    def __init__(self, config):
        super().__init__()
        m = self.config = config["model"]
        self.wte = nn.Embedding(m["vocabulary"], m["width"])
        if m["positions"] == "learned":
            self.wpe = nn.Embedding(m["context"], m["width"])
        else:
            self.register_buffer("sinusoids", sinusoids(m["context"] + 2, m["width"])[2:], persistent=False)
        self.h = nn.ModuleList(Layer(config, f"h.{i}") for i in range(m["layers"]))
        self.ln_f = make_norm(config, "ln_f") if m["pre_norm"] else nn.Identity()
        self.lm_head = nn.Linear(m["width"], m["vocabulary"], bias=m.get("output_bias", False))

    def embed(self, ids):
        length = ids.shape[1]
        if self.config["positions"] == "learned":
            return self.wte(ids) + self.wpe.weight[:length]
        return self.wte(ids) * self.config["width"] ** 0.5 + self.sinusoids[:length]

    def forward(self, ids):
        """Returns logits [B, T, vocabulary] of ids [B, T]."""
        x = self.embed(ids)
        for layer in self.h:
            x = layer(x)
        return self.lm_head(self.ln_f(x))


def load_model(path, dtype=torch.float32):
    directory = model_directory(path)
    model = Gpt(load_config(directory, "gpt")).to(dtype)
    tensors = load_values(directory, model)
    if model.config["tied"]:
        tensors["lm_head.weight"] = tensors["wte.weight"]
    model.load_state_dict(tensors)
    return model.eval()


if __name__ == "__main__":
    run_program(__doc__, load_model, lambda model, given: {"logits": model(given["ids"].long())})
