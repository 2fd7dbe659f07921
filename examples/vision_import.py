#!/usr/bin/env python3
"""Converts an image classifier of timm, SHI-Labs/Compact-Transformers or efficientnet-lite-pytorch to a foldgrad model
directory.

    examples/vision_import.py WEIGHTS DIRECTORY [--heads 6] [--activation gelu] [--eps 1e-6] [--image-size 224]
                              [--mean 0.491 0.482 0.447 --std 0.247 0.243 0.262] [--classes names.txt]

WEIGHTS is a state_dict in a .safetensors file, or in a file that torch.save wrote, possibly under the key "state_dict"
or "model". These models of timm are supported: VisionTransformer with square patches, which classifies by a class token
or by the mean of the tokens, before or after the last normalizer; SwinTransformer, also with its authors' names;
ConvNeXt; and tf_efficientnet_lite0. Do not convert efficientnet_lite0: it has the same names but pads differently, so
its logits would be wrong. Features that foldgrad's model lacks (distillation, register tokens, LayerScale of a
VisionTransformer, ...) are errors, and so are weights with unknown names. The script infers the sizes from the shapes
of the weights, but not the eps of the normalization, nor the mean and standard deviation of the images. Only
VisionTransformer and Compact-Transformers need --heads, and only their weights determine the size of the images.
--classes is a file with one class name per line.
"""
import argparse
import os
import re

import torch

from model_files import fail, load_pickled, load_tensors, make_new_directory, save_model, save_tensors
from pytorch_cct import Cct
from pytorch_vit import Vit


def read(path, trust):
    """Returns the state_dict in the file."""
    if path.endswith(".safetensors"):
        return load_tensors(path)
    weights = load_pickled(path, trust)
    for key in ("state_dict", "model"):
        weights = weights[key] if isinstance(weights, dict) and key in weights else weights
    if not isinstance(weights, dict) or not all(isinstance(t, torch.Tensor) for t in weights.values()):
        fail(f"{path}: is not a state_dict, which maps names to tensors")
    return {name.removeprefix("module."): tensor for name, tensor in weights.items()}


def root(count, what):
    side = round(count ** 0.5)
    if side * side != count:
        fail(f"the number of {what} must be a square, got {count}")
    return side


def layers_of(weights, prefix):
    found = [re.match(rf"{re.escape(prefix)}(\d+)\.", name) for name in weights]
    return 1 + max((int(m[1]) for m in found if m), default=-1)


def vit_of(weights):
    """Returns the part of config.json's section `model` that follows from the weights."""
    patches, cls = weights["patch_embed.proj.weight"], "cls_token" in weights
    patch, side = patches.shape[-1], root(weights["pos_embed"].shape[1] - cls, "patch positions")
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
    # Each convolution and its pooling together divide the side of an image by 2, or by 4 if the kernel size is 7.
    side = root(weights["classifier.positional_emb"].shape[1] - cls, "token positions")
    return {"stem": "cct", "convs": convs, "kernel": kernel, "image_size": side * (4 if kernel == 7 else 2) ** convs,
            "classes": len(weights["classifier.fc.weight"]), "width": len(last),
            "ffn_width": len(weights["classifier.blocks.0.linear1.weight"]),
            "layers": layers_of(weights, "classifier.blocks."), "pooling": "cls" if cls else "sequence",
            "block": "cct"}


TABLE = "attn.relative_position_bias_table"


def swin_of(weights):
    table = weights[f"layers.0.blocks.0.{TABLE}"]
    return {"patch": weights["patch_embed.proj.weight"].shape[-1], "image_size": 224,
            "window": (root(len(table), "rows in the bias table") + 1) // 2,
            "depths": [layers_of(weights, f"layers.{s}.blocks.") for s in range(layers_of(weights, "layers."))],
            "classes": len(weights["head.weight"]), "width": len(weights["patch_embed.proj.weight"]),
            "ffn_width": len(weights["layers.0.blocks.0.mlp.fc1.weight"]), "heads": table.shape[1],
            "qkv_bias": "layers.0.blocks.0.attn.qkv.bias" in weights}


def swin_names(model):
    layers, names = ["patch_embed.proj", "patch_embed.norm", "norm", "head"], set()
    for s, depth in enumerate(model["depths"]):
        if s + 1 < len(model["depths"]):
            layers.append(f"layers.{s}.downsample.norm")
            names.add(f"layers.{s}.downsample.reduction.weight")
        for block in (f"layers.{s}.blocks.{b}." for b in range(depth)):
            layers += [block + layer for layer in ("norm1", "norm2", "attn.proj", "mlp.fc1", "mlp.fc2")]
            names |= {block + "attn.qkv.weight", block + TABLE}
            names |= {block + "attn.qkv.bias"} if model["qkv_bias"] else set()
    return names | {f"{layer}.{part}" for layer in layers for part in ("weight", "bias")}


def convnext_of(weights):
    stages = range(layers_of(weights, "stages."))
    return {"patch": weights["stem.0.weight"].shape[-1], "image_size": 224, "classes": len(weights["head.fc.weight"]),
            "channels": [len(weights[f"stages.{s}.blocks.0.conv_dw.weight"]) for s in stages],
            "depths": [layers_of(weights, f"stages.{s}.blocks.") for s in stages]}


def convnext_names(model):
    layers = ["stem.0", "stem.1", "head.norm", "head.fc"]
    for s, depth in enumerate(model["depths"]):
        layers += [f"stages.{s}.downsample.{i}" for i in (0, 1) if s > 0]
        layers += [f"stages.{s}.blocks.{b}.{layer}" for b in range(depth)
                   for layer in ("conv_dw", "norm", "mlp.fc1", "mlp.fc2")]
    gammas = {f"stages.{s}.blocks.{b}.gamma.weight" for s, depth in enumerate(model["depths"]) for b in range(depth)}
    return gammas | {f"{layer}.{part}" for layer in layers for part in ("weight", "bias")}


def efficientnet_of(weights):
    return {"image_size": 224, "classes": len(weights["fc.weight"])}


def efficientnet_names(model):
    names = {"conv_stem.weight", "conv_head.weight", "fc.weight", "fc.bias"}
    norms = ["bn0", "bn1"]
    for b in range(16):
        convs = ["expand_conv", "depthwise_conv", "project_conv"][b == 0:]
        names |= {f"blocks.{b}.{conv}.weight" for conv in convs}
        norms += [f"blocks.{b}.bn{i}" for i in range(b == 0, 3)]
    return names | {f"{norm}.{part}" for norm in norms for part in ("weight", "bias", "run_mean", "run_var")}


def lite_name(name):
    """Returns efficientnet-lite-pytorch's name for a weight of timm's tf_efficientnet_lite0."""
    found = re.match(r"blocks\.(\d)\.(\d)\.(\w+)(.*)", name)
    if not found:
        layer, _, part = name.partition(".")
        return {"bn1": "bn0", "bn2": "bn1", "classifier": "fc"}.get(layer, layer) + "." + part
    stage, block, layer, part = int(found[1]), int(found[2]), found[3], found[4]
    depths = (1, 2, 2, 3, 3, 4, 1)
    if stage >= len(depths) or block >= depths[stage]:
        return name  # the weight belongs to a larger EfficientNet-Lite
    layers = {"conv_pw": "expand_conv", "bn1": "bn0", "conv_dw": "depthwise_conv", "bn2": "bn1",
              "conv_pwl": "project_conv", "bn3": "bn2"}
    if stage == 0:  # stage 0 has no expanding convolution
        layers = {"conv_dw": "depthwise_conv", "conv_pw": "project_conv"}
    return f"blocks.{sum(depths[:stage]) + block}.{layers.get(layer, layer)}{part}"


def swin_name(name):
    """Returns the authors' name for a weight of timm's SwinTransformer. timm counts patch merging as part of the
    stage after it, the authors as part of the stage before it."""
    name = re.sub(r"^layers\.(\d+)\.downsample", lambda m: f"layers.{int(m[1]) - 1}.downsample", name)
    return name.replace("head.fc.", "head.")


def renamed(weights):
    """Returns the weights with foldgrad's names and shapes."""
    if f"layers.0.blocks.0.{TABLE}" in weights:  # Swin
        by_timm = "head.fc.weight" in weights
        return {swin_name(name) if by_timm else name: tensor for name, tensor in weights.items()
                if not name.endswith(("relative_position_index", "attn_mask"))}  # these tensors are constants
    if "stem.0.weight" in weights:  # ConvNeXt, whose linear layers may be stored as 1 x 1 convolutions
        return {re.sub(r"\.gamma$", ".gamma.weight", name): tensor.flatten(1) if ".mlp." in name and tensor.ndim > 1
                else tensor for name, tensor in weights.items()}
    if "_conv_stem.weight" in weights:
        weights = {re.sub(r"(^|\.)_", r"\1", name): tensor for name, tensor in weights.items()}
    elif "conv_stem.weight" in weights and "classifier.weight" in weights:
        weights = {lite_name(name): tensor for name, tensor in weights.items()}
    return {name.replace("running_", "run_"): tensor for name, tensor in weights.items()
            if not name.endswith("num_batches_tracked")}


def names_of(network, model):
    """Returns the names of a model's weights. They do not depend on the number of heads or the activation."""
    config = {"model": {"heads": 1, "activation": "gelu", **model}, "norm": {"name": "ln"}}
    with torch.device("meta"):
        return network(config).state_dict().keys()


def model_of(weights):
    """Returns the family, and the part of config.json's section `model` that follows from the weights. Fails if weights
    are unknown or missing."""
    if f"layers.0.blocks.0.{TABLE}" in weights:
        family, names_by, keys_of = "swin", swin_names, swin_of
    elif "patch_embed.proj.weight" in weights:
        family, names_by, keys_of = "vit", lambda model: names_of(Vit, model), vit_of
    elif "tokenizer.conv_layers.0.0.weight" in weights:
        family, names_by, keys_of = "cct", lambda model: names_of(Cct, model), cct_of
    elif "stem.0.weight" in weights:
        family, names_by, keys_of = "convnext", convnext_names, convnext_of
    elif "conv_stem.weight" in weights:
        family, names_by, keys_of = "efficientnet_lite", efficientnet_names, efficientnet_of
    else:
        fail("the file has neither patch_embed.proj.weight, as in timm's VisionTransformer and SwinTransformer, nor "
             "tokenizer.conv_layers.0.0.weight, as in Compact-Transformers, nor stem.0.weight, as in timm's ConvNeXt, "
             "nor conv_stem.weight, as in EfficientNet-Lite0")
    try:
        model = keys_of(weights)
    except KeyError as e:
        fail(f"the file lacks {e.args[0]}")
    names = names_by(model)
    unknown, missing = sorted(weights.keys() - names), sorted(names - weights.keys())
    if unknown or missing:
        fail(f"weights that foldgrad's model does not have: {', '.join(unknown) or 'none'}; missing weights: "
             f"{', '.join(missing) or 'none'}")
    return family, model


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights")
    parser.add_argument("directory")
    parser.add_argument("--heads", type=int, help="number of attention heads")
    parser.add_argument("--activation", default="gelu", help="activation in the feed-forward blocks (default: gelu)")
    parser.add_argument("--eps", type=float, help="eps of the normalization; default: 1e-5 for Swin and CCT, 1e-3 for "
                                                  "EfficientNet-Lite0, otherwise 1e-6")
    parser.add_argument("--image-size", type=int, help="side of the images in pixels, if the weights do not determine "
                                                       "it (CCT: only up to rounding; default for Swin, ConvNeXt and "
                                                       "EfficientNet-Lite0: 224)")
    parser.add_argument("--mean", type=float, nargs=3, default=[0, 0, 0], help="means of the colors, in [0, 1]")
    parser.add_argument("--std", type=float, nargs=3, default=[1, 1, 1])
    parser.add_argument("--classes", help="file with the names of the classes")
    parser.add_argument("--trust", action="store_true", help="unpickle any content of the file, which may run code")
    args = parser.parse_args(arguments)
    weights = renamed(read(args.weights, args.trust))
    family, model = model_of(weights)
    model |= {"image_mean": args.mean, "image_std": args.std}
    if family in ("vit", "cct"):
        if args.heads is None:
            fail("--heads is missing: the weights do not say how many heads attention has")
        model["heads"] = args.heads
    if family in ("vit", "cct", "swin"):
        model["activation"] = args.activation
    if args.image_size:
        model["image_size"] = args.image_size
    if args.classes:
        with open(args.classes, encoding="utf-8") as file:
            model["class_names"] = file.read().split("\n")[:model["classes"]]
    eps = args.eps or {"vit": 1e-6, "cct": 1e-5, "swin": 1e-5, "convnext": 1e-6, "efficientnet_lite": 1e-3}[family]
    norm = {"name": "ln", "options": {"eps": eps}}
    if family == "efficientnet_lite":
        norm = {"name": "bn", "options": {"alpha": 0.99, "eps": eps}}
    weights = {name: t.float() for name, t in weights.items()}
    state = {name: weights.pop(name) for name in list(weights) if name.endswith((".run_mean", ".run_var"))}
    for site in {name.rpartition(".")[0] for name in state}:
        state |= {f"{site}.{counter}": torch.tensor(0) for counter in ("iters", "skips")}
    make_new_directory(args.directory)
    if state:
        save_tensors(os.path.join(args.directory, "norm_state.safetensors"), state)
    save_model(args.directory, family, {"model": model, "norm": norm}, weights)
    print(f"{args.directory}: {family}, {sum(t.numel() for t in weights.values()):,} parameters, "
          f"{model['classes']} classes, images of {model['image_size']} x {model['image_size']}")


if __name__ == "__main__":
    main()
