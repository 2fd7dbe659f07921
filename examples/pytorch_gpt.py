#!/usr/bin/env python3
"""foldgrad's decoder-only Transformer, written out in PyTorch.

    examples/pytorch_gpt.py MODEL IN.safetensors OUT.safetensors

computes the same results as `foldgrad run MODEL --input IN.safetensors --output OUT.safetensors`. Parameters have
nanoGPT's names and shapes. MODEL is a model directory or a run. If it is a run, its best checkpoint is used, or the
latest one if there is no best. normalizers.py has the normalizers. The computation is in torch.float32, or in float64
with --dtype float64.
"""
import torch
from torch import nn

from model_files import load_config, load_values, model_directory, run_program, sinusoids
from normalizers import make_norm, make_residual, residual_sum
from pytorch_model import ACTIVATIONS


def linear(m, inputs, outputs, reads_norm):
    """Makes a linear layer. In a model without biases, folding adds a bias to layers that read a normalizer."""
    return nn.Linear(inputs, outputs, m.get("bias", True) or reads_norm and m.get("input_bias", False))


def turned(x, theta):
    """Rotates each pair of neighbouring columns of x [B, heads, T, D] by an angle that depends on the position."""
    length, width = x.shape[-2:]
    frequencies = theta ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.outer(torch.arange(length, dtype=torch.float64), frequencies).to(x.dtype)
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


class Attention(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.heads, width = m["heads"], m["width"]
        self.theta = m.get("rotary_theta", 10000) if m["positions"] == "rotary" else None
        self.c_attn, self.c_proj = linear(m, width, 3 * width, True), linear(m, width, width, False)

    def forward(self, x):
        """Computes causal self-attention: every token attends to itself and to the tokens before it."""
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.c_attn(x).chunk(3, -1))
        if self.theta:
            q, k = turned(q, self.theta), turned(k, self.theta)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(-2))


class Mlp(nn.Module):
    def __init__(self, m):
        super().__init__()
        width, inner = m["width"], m["ffn_width"]
        self.c_fc, self.c_proj = linear(m, width, inner, True), linear(m, inner, width, False)
        self.c_gate = linear(m, width, inner, True) if m.get("gated", False) else None
        self.activation = ACTIVATIONS[m["activation"]]

    def forward(self, x):
        up = self.c_fc(x)
        return self.c_proj(self.activation(self.c_gate(x)) * up if self.c_gate else self.activation(up))


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
        if m.get("scaled_embedding", False):
            self.wte.scale = nn.Parameter(torch.ones(1))
        if m["positions"] == "learned":
            self.wpe = nn.Embedding(m["context"], m["width"])
        elif m["positions"] == "sinusoidal":
            self.register_buffer("sinusoids", sinusoids(m["context"] + 2, m["width"])[2:], persistent=False)
        self.h = nn.ModuleList(Layer(config, f"h.{i}") for i in range(m["layers"]))
        self.ln_f = make_norm(config, "ln_f") if m["pre_norm"] else nn.Identity()
        self.lm_head = nn.Linear(m["width"], m["vocabulary"], bias=m.get("output_bias", False))

    def embed(self, ids):
        length, x = ids.shape[1], self.wte(ids)
        if hasattr(self.wte, "scale"):
            x = x * self.wte.scale
        if self.config["positions"] == "rotary":
            return x
        if self.config["positions"] == "learned":
            return x + self.wpe.weight[:length]
        return x * self.config["width"] ** 0.5 + self.sinusoids[:length]

    def forward(self, ids):
        """Returns the logits [B, T, vocabulary] for ids [B, T]."""
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
