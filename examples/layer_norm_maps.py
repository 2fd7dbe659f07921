#!/usr/bin/env python3
"""Plots the outputs of trained layer norms against their inputs, as on the project page of Dynamic Tanh.

    examples/layer_norm_maps.py RUN TEXT > maps.svg

RUN is a character-level language model with layer normalization (docs/language.md). The model reads the last tokens of
the file TEXT. Three plots, for the first, the middle and the last site, show (x - mean) / sqrt(variance + eps) against
x. A layer norm is linear within a token, so the points of each token form a line, but all points together may look like
an S.
"""
import json
import os
import sys

import torch

from model_files import model_directory
from pytorch_gpt import load_model

TOKENS, SHOWN, SIZE = 2048, 800, 220


def ids_of(directory, text, context):
    """Returns the ids [B, context] of the text's last characters. Unknown characters have id 0."""
    with open(os.path.join(directory, "vocabulary", "vocabulary.json"), encoding="utf-8") as file:
        characters = json.load(file)["characters"]
    ids = [characters.find(c) + 1 for c in text][-TOKENS:]
    return torch.tensor(ids[:len(ids) // context * context]).view(-1, context)


def pairs(model, sites, ids):
    """Returns {site: (input, output before gain and bias)}. The tensors are flattened."""
    found = {}
    norms = dict(model.named_modules())
    for site in sites:
        norms[site].register_forward_hook(lambda norm, given, result, site=site: found.update(
            {site: (given[0].flatten(), ((result - norm.bias) / norm.weight).flatten())}))
    with torch.no_grad():
        model(ids)
    return found


def panel(title, x, y, left):
    chosen = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))[:SHOWN]
    wide, high = x.abs().max().item(), y.abs().max().item()
    dots = "".join(f"M{left + SIZE / 2 * (1 + a / wide):.0f} {SIZE / 2 * (1 - b / high) + 20:.0f}h1.5"
                   for a, b in zip(x[chosen].tolist(), y[chosen].tolist()))
    return (f'<path d="M{left} {20 + SIZE / 2:.0f}h{SIZE}M{left + SIZE / 2:.0f} 20v{SIZE}" stroke="#ccc"/>'
            f'<path d="{dots}" stroke="#1f77b4" stroke-width="1.5"/>'
            f'<text x="{left}" y="14">{title}: x within {wide:.2g}, result within {high:.2g}</text>')


if __name__ == "__main__":
    directory = model_directory(sys.argv[1])
    model = load_model(directory)
    with open(sys.argv[2], encoding="utf-8") as file:
        ids = ids_of(directory, file.read(), model.config["context"])
    sites = ["h.0.ln_1", f"h.{len(model.h) // 2}.ln_1", "ln_f"]
    panels = [panel(site, *of, (SIZE + 90) * n) for n, (site, of) in enumerate(pairs(model, sites, ids).items())]
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {3 * SIZE + 180} {SIZE + 30}" fill="none">'
          f'<rect width="100%" height="100%" fill="white"/><g font-family="sans-serif" font-size="10" fill="black">'
          + "\n".join(panels) + "</g></svg>")
