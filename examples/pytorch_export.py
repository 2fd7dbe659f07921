#!/usr/bin/env python3
"""Writes a PyTorch model as a model directory for foldgrad's commands run, inspect, fold, eval and translate.

    examples/pytorch_export.py DIRECTORY [--norm un]

writes a small model with random weights and a vocabulary of words. Call export() with your own model.
"""
import argparse
import json
import os

import torch

from model_files import save_model, save_tensors
from normalizers import Offline
from pytorch_model import Transformer


def export(model, config, directory, source_words=None, target_words=None):
    """Writes `model`, whose parameters must be named as in pytorch_model.Transformer. Words have the ids 4, 5, ...; the
    ids 0 to 3 are special tokens."""
    os.makedirs(directory)
    parameters = {name: p for name, p in model.named_parameters()}  # a shared parameter occurs only once
    save_tensors(os.path.join(directory, "norm_state.safetensors"), norm_state(model, config))
    if source_words:
        write_vocabulary(os.path.join(directory, "vocabulary"), source_words, target_words)
    save_model(directory, "transformer", config, parameters)


def norm_state(model, config):
    """Returns the state of `un`. Inference needs only run_var; everything else has its initial value."""
    state = {}
    window = config["norm"].get("options", {}).get("window", 4)
    for site, norm in model.named_modules():
        if isinstance(norm, Offline):
            state[f"{site}.run_var"] = norm.run_var.float()
            state[f"{site}.psi_ema"] = torch.zeros_like(norm.run_var)
            for name in ("win_sq", "win_g"):
                state[f"{site}.{name}"] = torch.zeros(window, norm.run_var.numel())
            for name in ("iters", "skips"):
                state[f"{site}.{name}"] = torch.zeros((), dtype=torch.int64)
    return state


def write_vocabulary(directory, source_words, target_words):
    """Writes dictionaries in fairseq's format, one "WORD COUNT" per line. foldgrad pads each of them to a
    multiple of 8 words."""
    os.makedirs(directory)
    for name, words in (("source", source_words), ("target", target_words)):
        with open(os.path.join(directory, f"dict.{name}.txt"), "w", encoding="utf-8") as file:
            file.writelines(f"{word} 1\n" for word in words)
    with open(os.path.join(directory, "vocabulary.json"), "w") as file:
        json.dump({"format": 1, "kind": "words", "lowercase": False}, file)


def small_config(norm, source_words, target_words):
    rows = lambda words: (len(words) + 4 + 7) // 8 * 8
    return {"model": {"source_vocabulary": rows(source_words), "target_vocabulary": rows(target_words), "width": 16,
                      "ffn_width": 32, "heads": 4, "encoder_layers": 2, "decoder_layers": 2, "max_positions": 64,
                      "pad": 1, "pre_norm": True, "activation": "relu", "share_embeddings": "decoder"},
            "norm": {"name": norm, "options": {"eps": 1e-5}}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--norm", default="un", choices=["un", "ln"])
    args = parser.parse_args()
    source_words, target_words = "ein zwei drei vier".split(), "one two three four five".split()
    config = small_config(args.norm, source_words, target_words)
    torch.manual_seed(1)
    model = Transformer(config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" in name:
                p += 0.2 * torch.randn_like(p)
            elif "embed_tokens" in name:
                p *= p.shape[1] ** -0.5
        for module in model.modules():
            if isinstance(module, Offline):
                module.run_var.copy_(0.5 + torch.rand_like(module.run_var))
    export(model, config, args.directory, source_words, target_words)


if __name__ == "__main__":
    main()
