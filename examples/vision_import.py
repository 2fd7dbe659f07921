#!/usr/bin/env python3
"""Converts an image classifier trained by timm or SHI-Labs/Compact-Transformers to a model directory of foldgrad.

    examples/vision_import.py WEIGHTS DIRECTORY --heads 6 [--activation gelu] [--eps 1e-6] [--mean 0.491 0.482 0.447
                              --std 0.247 0.243 0.262] [--classes names.txt]

WEIGHTS is a state_dict: a .safetensors file, or one that torch.save has written, also below the key "state_dict" or
"model". Names of weights are the same in both, and shapes give the sizes, but not the heads, eps of the layer
normalization, and mean and deviation of the images. timm's VisionTransformer must have a class token, or the mean of
tokens before or after its last normalizer, and square patches; features that foldgrad's model lacks (distillation, register
tokens, LayerScale, ...) are an error, and so are weights with unknown names. --classes is a file with the name of a
class on each line.
"""
import argparse
import re

import torch

from model_files import fail, load_pickled, load_tensors, make_new_directory, save_model
from pytorch_cct import Cct
from pytorch_vit import Vit


def read(path, trust):
    """Returns the state_dict."""
    if path.endswith(".safetensors"):
        return load_tensors(path)
    weights = load_pickled(path, trust)
    for key in ("state_dict", "model"):
        weights = weights[key] if isinstance(weights, dict) and key in weights else weights
    if not isinstance(weights, dict) or not all(isinstance(t, torch.Tensor) for t in weights.values()):
        fail(f"{path}: is no state_dict, which has a tensor for each name")
    return {name.removeprefix("module."): tensor for name, tensor in weights.items()}


def root(count, what):
    side = round(count ** 0.5)
    if side * side != count:
        fail(f"{what} are {count}, which is no square")
    return side


def layers_of(weights, prefix):
    found = [re.match(rf"{re.escape(prefix)}(\d+)\.", name) for name in weights]
    return 1 + max((int(m[1]) for m in found if m), default=-1)


def vit_of(weights):
    """Returns the keys of `model`."""
    patches, cls = weights["patch_embed.proj.weight"], "cls_token" in weights
    patch, side = patches.shape[-1], root(weights["pos_embed"].shape[1] - cls, "positions of patches")
    model = {"patch": patch, "image_size": patch * side, "classes": len(weights["head.weight"]), "width": len(patches),
             "ffn_width": len(weights["blocks.0.mlp.fc1.weight"]), "layers": layers_of(weights, "blocks."),
             "pooling": "cls" if cls else "mean", "qkv_bias": "blocks.0.attn.qkv.bias" in weights, "pre_norm": True}
    if "fc_norm.weight" in weights:
        model |= {"fc_norm": True, "pooling": "mean"}
    return model


def cct_of(weights):
    convs = layers_of(weights, "tokenizer.conv_layers.")
    last = weights[f"tokenizer.conv_layers.{convs - 1}.0.weight"]
    kernel, cls = last.shape[-1], "classifier.class_emb" in weights
    # Each convolution with its maximum halves the side of an image, and with kernels of 7 quarters it.
    side = root(weights["classifier.positional_emb"].shape[1] - cls, "positions of tokens")
    return {"stem": "cct", "convs": convs, "kernel": kernel, "image_size": side * (4 if kernel == 7 else 2) ** convs,
            "classes": len(weights["classifier.fc.weight"]), "width": len(last),
            "ffn_width": len(weights["classifier.blocks.0.linear1.weight"]),
            "layers": layers_of(weights, "classifier.blocks."), "pooling": "cls" if cls else "sequence",
            "block": "cct"}


def names_of(network, model):
    """Returns the names of a model's weights, which do not depend on heads and activation."""
    config = {"model": {"heads": 1, "activation": "gelu", **model}, "norm": {"name": "ln"}}
    with torch.device("meta"):
        return network(config).state_dict().keys()


def model_of(weights):
    """Returns the family, and the keys of `model`."""
    if "patch_embed.proj.weight" in weights:
        family, network, keys_of = "vit", Vit, vit_of
    elif "tokenizer.conv_layers.0.0.weight" in weights:
        family, network, keys_of = "cct", Cct, cct_of
    else:
        fail("has neither patch_embed.proj.weight, as timm's VisionTransformer, nor tokenizer.conv_layers.0.0.weight, "
             "as Compact-Transformers")
    try:
        model = keys_of(weights)
    except KeyError as e:
        fail(f"lacks {e.args[0]}")
    names = names_of(network, model)
    unknown, missing = sorted(weights.keys() - names), sorted(names - weights.keys())
    if unknown or missing:
        fail(f"weights that foldgrad's model does not have: {', '.join(unknown) or 'none'}; that are missing: "
             f"{', '.join(missing) or 'none'}")
    return family, model


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights")
    parser.add_argument("directory")
    parser.add_argument("--heads", type=int, required=True, help="of attention")
    parser.add_argument("--activation", default="gelu", help="of the feed-forward blocks")
    parser.add_argument("--eps", type=float, help="of the layer normalization; 1e-6 for timm, 1e-5 for CCT")
    parser.add_argument("--image-size", type=int, help="pixels on a side, where rounding hides it (CCT)")
    parser.add_argument("--mean", type=float, nargs=3, default=[0, 0, 0], help="of red, green and blue, in [0, 1]")
    parser.add_argument("--std", type=float, nargs=3, default=[1, 1, 1])
    parser.add_argument("--classes", help="a file with their names")
    parser.add_argument("--trust", action="store_true", help="unpickle whatever the file holds, also code")
    args = parser.parse_args(arguments)
    weights = read(args.weights, args.trust)
    family, model = model_of(weights)
    model |= {"heads": args.heads, "activation": args.activation, "image_mean": args.mean, "image_std": args.std}
    if args.image_size:
        model["image_size"] = args.image_size
    if args.classes:
        with open(args.classes, encoding="utf-8") as file:
            model["class_names"] = file.read().split("\n")[:model["classes"]]
    eps = args.eps or {"vit": 1e-6, "cct": 1e-5}[family]
    make_new_directory(args.directory)
    save_model(args.directory, family, {"model": model, "norm": {"name": "ln", "options": {"eps": eps}}},
               {name: t.float() for name, t in weights.items()})
    print(f"{args.directory}: {family}, {model['layers']} layers of width {model['width']}, "
          f"{model['classes']} classes, images of {model['image_size']}")


if __name__ == "__main__":
    main()
