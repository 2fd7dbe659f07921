#!/usr/bin/env python3
"""Converts a GPT-2 from Hugging Face's Transformers to a foldgrad model directory.

    examples/gpt2_import.py GPT2 DIRECTORY

GPT2 is a folder with config.json and model.safetensors, from the hub or from save_pretrained(). Both libraries use
nanoGPT's names for the weights, but Transformers stores the matrices of a layer transposed. Features that foldgrad's
model lacks are errors. The tokenizer is dropped, since foldgrad has no byte-level BPE. You can use `foldgrad run`,
which takes ids and returns logits, and `fold`, `verify` and `export`, which need no text. `generate` and `eval` fail,
since the vocabulary is missing.
"""
import argparse
import json
import os
import re

from model_files import fail, load_tensors, make_new_directory, save_model

ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu"}
FIXED = {"model_type": "gpt2", "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False,
         "add_cross_attention": False}
TRANSPOSED = re.compile(r"h\.\d+\.(attn\.c_attn|attn\.c_proj|mlp\.c_fc|mlp\.c_proj)\.weight")
MASKS = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)")  # buffers, not parameters


def read_config(path):
    try:
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
    except (OSError, ValueError) as e:
        fail(f"{path}: {e}")
    for key, value in FIXED.items():
        if config.get(key, value) != value:
            fail(f"{path}: {key} must be {json.dumps(value)}, got {json.dumps(config[key])}")
    if config.get("activation_function", "gelu_new") not in ACTIVATIONS:
        fail(f"{path}: activation_function must be one of {', '.join(ACTIVATIONS)}, "
             f"got {config['activation_function']}")
    return config


def shapes_of(m):
    """Returns {name: shape} for the weights of foldgrad's model."""
    width, inner = m["width"], m["ffn_width"]
    shapes = {"wte.weight": [m["vocabulary"], width], "wpe.weight": [m["context"], width], "ln_f.weight": [width],
              "ln_f.bias": [width]}
    if not m["tied"]:
        shapes["lm_head.weight"] = [m["vocabulary"], width]
    for i in range(m["layers"]):
        for norm in ("ln_1", "ln_2"):
            shapes |= {f"h.{i}.{norm}.weight": [width], f"h.{i}.{norm}.bias": [width]}
        for name, rows, columns in (("attn.c_attn", 3 * width, width), ("attn.c_proj", width, width),
                                    ("mlp.c_fc", inner, width), ("mlp.c_proj", width, inner)):
            shapes |= {f"h.{i}.{name}.weight": [rows, columns], f"h.{i}.{name}.bias": [rows]}
    return shapes


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpt2")
    parser.add_argument("directory")
    args = parser.parse_args(arguments)
    config_path, path = (os.path.join(args.gpt2, name) for name in ("config.json", "model.safetensors"))
    config = read_config(config_path)
    try:
        tensors = load_tensors(path)
    except (OSError, ValueError) as e:
        fail(e)
    weights = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    weights = {name: (tensor.T if TRANSPOSED.fullmatch(name) else tensor).float()
               for name, tensor in weights.items() if not MASKS.fullmatch(name)}
    head, table = weights.get("lm_head.weight"), weights.get("wte.weight")
    tied = head is None or (table is not None and head.equal(table))
    if tied:
        weights.pop("lm_head.weight", None)
    try:
        m = {"vocabulary": config["vocab_size"], "layers": config["n_layer"], "context": config["n_positions"],
             "width": config["n_embd"], "ffn_width": config.get("n_inner") or 4 * config["n_embd"],
             "heads": config["n_head"], "positions": "learned", "tied": tied, "pre_norm": True,
             "activation": ACTIVATIONS[config.get("activation_function", "gelu_new")]}
    except KeyError as e:
        fail(f"{config_path}: lacks {e.args[0]}")
    wanted, given = shapes_of(m), {name: list(t.shape) for name, t in weights.items()}
    for name in sorted(wanted.keys() | given.keys()):
        if wanted.get(name) != given.get(name):
            fail(f"{path}: {name} must be {wanted.get(name, 'absent')} per config.json, got {given.get(name, 'none')}")
    eps = config.get("layer_norm_epsilon", 1e-5)
    make_new_directory(args.directory)
    save_model(args.directory, "gpt", {"model": m, "norm": {"name": "ln", "options": {"eps": eps}}}, weights)
    print(f"{args.directory}: gpt, {m['layers']} layers of width {m['width']}, {m['vocabulary']} tokens, "
          f"a context of {m['context']}")


if __name__ == "__main__":
    main()
