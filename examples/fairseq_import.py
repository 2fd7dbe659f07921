#!/usr/bin/env python3
"""Converts a Transformer that was trained with fairseq to a foldgrad model directory.

    examples/fairseq_import.py checkpoint_best.pt DIRECTORY [--source-dictionary dict.de.txt --target-dictionary
                               dict.en.txt [--bpe-codes code]]

Weights have the same names in both libraries. Old checkpoints with `in_proj_weight` are supported. Features that
foldgrad's Transformer lacks (learned positions, a normalizer for the embeddings, ...) are errors, and so are tensors
with unknown names. Translation needs the dictionaries; without them, you can only use `foldgrad run`, which takes ids.
"""
import argparse
import json
import os
import re
import shutil

import torch

from model_files import fail, load_pickled, make_new_directory, save_model
from pytorch_model import Transformer

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_accurate": "gelu_tanh", "gelu_fast": "gelu_tanh",
               "tanh": "tanh", "swish": "silu"}
# With these options, the model would not compute the same function as foldgrad's Transformer.
MUST_BE_OFF = ("encoder_learned_pos", "decoder_learned_pos", "no_scale_embedding", "layernorm_embedding",
               "no_token_positional_embeddings", "cross_self_attention", "no_cross_attention", "adaptive_input",
               "tie_adaptive_weights", "adaptive_softmax_cutoff", "encoder_layerdrop", "decoder_layerdrop")


def read(path, trust):
    """Returns the options of the checkpoint as a dictionary, and the weights."""
    torch.serialization.add_safe_globals([argparse.Namespace])
    checkpoint = load_pickled(path, trust)
    for key in ("args", "cfg"):
        options = checkpoint.get(key)
        if key == "cfg" and options is not None:
            options = options["model"]
        if options is not None:
            return options if isinstance(options, dict) else vars(options), checkpoint["model"]
    fail(f"{path}: has neither args nor cfg, so it is not a fairseq checkpoint")


def rename_old(weights):
    """Converts old names: splits in_proj_weight [3 C, C] into q_proj, k_proj and v_proj, and renames embed_out to
    output_projection."""
    if "decoder.embed_out" in weights:
        weights["decoder.output_projection.weight"] = weights.pop("decoder.embed_out")
    for name in [name for name in weights if ".in_proj_" in name]:
        stem, kind = name.split(".in_proj_")
        for part, tensor in zip("qkv", weights.pop(name).chunk(3)):
            weights[f"{stem}.{part}_proj.{kind}"] = tensor


def config_of(options, weights):
    for name in MUST_BE_OFF:
        if options.get(name):
            fail(f"{name} = {options[name]}: foldgrad's Transformer lacks this feature")
    option = lambda name, default: default if options.get(name) is None else options[name]
    activation = option("activation_fn", "relu")
    if activation not in ACTIVATIONS:
        fail(f"activation_fn = {activation}: must be one of {', '.join(ACTIVATIONS)}")
    both = {}
    for name, default in (("attention_heads", 8), ("normalize_before", False)):
        both[name], decoder = option(f"encoder_{name}", default), option(f"decoder_{name}", default)
        if both[name] != decoder:
            fail(f"encoder_{name} = {both[name]}, decoder_{name} = {decoder}: must be equal")
    count = lambda stack: 1 + max(int(re.match(rf"{stack}\.layers\.(\d+)\.", name)[1]) for name in weights
                                  if name.startswith(f"{stack}.layers."))
    source, target = weights["encoder.embed_tokens.weight"], weights["decoder.embed_tokens.weight"]
    shared = ("all" if option("share_all_embeddings", False) else
              "decoder" if option("share_decoder_input_output_embed", False) else "none")
    return {"model": {"source_vocabulary": len(source), "target_vocabulary": len(target), "width": source.shape[1],
                      "ffn_width": len(weights["encoder.layers.0.fc1.weight"]), "heads": both["attention_heads"],
                      "encoder_layers": count("encoder"), "decoder_layers": count("decoder"),
                      "max_positions": max(option("max_source_positions", 1024), option("max_target_positions", 1024)),
                      "pad": 1, "pre_norm": bool(both["normalize_before"]), "activation": ACTIVATIONS[activation],
                      "share_embeddings": shared},
            "norm": {"name": "ln", "options": {"eps": 1e-5}}}


def names_of(config):
    """Returns the names of the tensors in model.safetensors. A shared table has the name of its first use."""
    with torch.device("meta"):
        return {name for name, _ in Transformer(config).named_parameters()}


def weights_for(config, weights):
    """Returns the tensors for model.safetensors, a shared table only once. Fails if any are unknown or missing."""
    wanted = names_of(config)
    beside = re.compile(r".*(\.version|\.embed_positions\..*)$")
    shared = {"decoder.embed_tokens.weight", "decoder.output_projection.weight"} - wanted
    table = "encoder.embed_tokens.weight" if config["model"]["share_embeddings"] == "all" else "decoder.embed_tokens.weight"
    for name in shared & weights.keys():
        if not torch.equal(weights[name], weights[table]):
            fail(f"{name}: differs from the embedding table, although the options say that the tables are shared")
    unknown = [name for name in weights if name not in wanted | shared and not beside.match(name)]
    missing = sorted(wanted - weights.keys())
    if unknown or missing:
        fail(f"weights that foldgrad's Transformer does not have: {unknown or 'none'}; missing weights: "
             f"{missing or 'none'}")
    return {name: weights[name].float() for name in wanted}


def write_vocabulary(directory, source, target, codes):
    os.makedirs(directory)
    shutil.copyfile(source, os.path.join(directory, "dict.source.txt"))
    shutil.copyfile(target, os.path.join(directory, "dict.target.txt"))
    if codes:
        shutil.copyfile(codes, os.path.join(directory, "codes"))
    with open(os.path.join(directory, "vocabulary.json"), "w") as file:
        json.dump({"format": 1, "kind": "bpe" if codes else "words", "lowercase": False}, file)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("directory")
    parser.add_argument("--source-dictionary", help="fairseq's dictionary of the source language, such as dict.de.txt")
    parser.add_argument("--target-dictionary")
    parser.add_argument("--bpe-codes", help="merge operations of subword-nmt, if it split the text")
    parser.add_argument("--trust", action="store_true", help="unpickle any content of the file, which may run code")
    args = parser.parse_args(arguments)
    if bool(args.source_dictionary) != bool(args.target_dictionary) or (args.bpe_codes and not args.source_dictionary):
        parser.error("--source-dictionary and --target-dictionary require each other; --bpe-codes requires both")
    options, weights = read(args.checkpoint, args.trust)
    weights = dict(weights)
    rename_old(weights)
    config = config_of(options, weights)
    weights = weights_for(config, weights)
    make_new_directory(args.directory)
    if args.source_dictionary:
        write_vocabulary(os.path.join(args.directory, "vocabulary"), args.source_dictionary, args.target_dictionary,
                         args.bpe_codes)
    save_model(args.directory, "transformer", config, weights)
    m = config["model"]
    print(f"{args.directory}: {m['encoder_layers']} + {m['decoder_layers']} layers of width {m['width']}, "
          f"{'pre' if m['pre_norm'] else 'post'}-norm, embeddings shared: {m['share_embeddings']}")


if __name__ == "__main__":
    main()
