"""examples/vision_import.py: with imported weights foldgrad gives the logits of the published models."""
import os
import tempfile

from setting import expect_near_greatest, expect_refused, logits_of, printed_by, require

require("numpy", "safetensors", "torch")
import torch  # noqa: E402
import vision_import  # noqa: E402
from model_files import save_tensors  # noqa: E402
from pytorch_cct import Cct  # noqa: E402
from pytorch_vit import Vit  # noqa: E402

TOLERANCE = 1e-5  # of the greatest logit: f32 here and f64 there
WIDTH, HEADS, FFN, CLASSES = 8, 2, 12, 3
MEAN, STD = [0.5, 0.4, 0.3], [0.2, 0.25, 0.3]


class Weights(dict):
    """Random weights by name; gains are near 1."""

    def add(self, name, *shape):
        noise = torch.randn(shape, generator=self.generator, dtype=torch.float64) * 0.4
        self[name] = (1 + noise if "norm" in name and name.endswith("weight") else noise).float()

    def linear(self, name, out, width, bias=True):
        self.add(name + ".weight", out, width)
        if bias:
            self.add(name + ".bias", out)

    def norm(self, name):
        self.add(name + ".weight", WIDTH)
        self.add(name + ".bias", WIDTH)

    def __init__(self, seed):
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)


def block_of(w, prefix, norms, attention, mlp, qkv_bias):
    for name in norms:
        w.norm(f"{prefix}.{name}")
    w.linear(f"{prefix}.{attention}.qkv", 3 * WIDTH, WIDTH, qkv_bias)
    w.linear(f"{prefix}.{attention}.proj", WIDTH, WIDTH)
    w.linear(f"{prefix}.{mlp[0]}", FFN, WIDTH)
    w.linear(f"{prefix}.{mlp[1]}", WIDTH, FFN)


def vit_weights(cls, qkv_bias, norm="norm"):
    """Returns weights with timm's names: patches of 4 of images of 8."""
    w = Weights(1)
    w.add("patch_embed.proj.weight", WIDTH, 3, 4, 4)
    w.add("patch_embed.proj.bias", WIDTH)
    if cls:
        w.add("cls_token", 1, 1, WIDTH)
    w.add("pos_embed", 1, 4 + cls, WIDTH)
    for i in range(2):
        block_of(w, f"blocks.{i}", ("norm1", "norm2"), "attn", ("mlp.fc1", "mlp.fc2"), qkv_bias)
    w.norm(norm)
    w.linear("head", CLASSES, WIDTH)
    return w


def cct_weights(convs, kernel, tokens, cls=False):
    w = Weights(2)
    for i in range(convs):
        w.add(f"tokenizer.conv_layers.{i}.0.weight", WIDTH if i == convs - 1 else 64, 64 if i else 3, kernel, kernel)
    if cls:
        w.add("classifier.class_emb", 1, 1, WIDTH)
    else:
        w.linear("classifier.attention_pool", 1, WIDTH)
    w.add("classifier.positional_emb", 1, tokens + cls, WIDTH)
    for i in range(2):
        block_of(w, f"classifier.blocks.{i}", ("pre_norm", "norm1"), "self_attn", ("linear1", "linear2"), False)
    w.norm("classifier.norm")
    w.linear("classifier.fc", CLASSES, WIDTH)
    return w


def logits_by_pytorch(weights, pixels, eps):
    """Returns the logits of the published model in examples/, which has its names, in f64."""
    vit = "patch_embed.proj.weight" in weights
    name = "blocks.0.attn.qkv.bias" if vit else "classifier.class_emb"
    model = {"image_size": pixels.shape[1], "width": WIDTH, "ffn_width": FFN, "heads": HEADS, "layers": 2,
             "classes": CLASSES, "activation": "gelu", "image_mean": MEAN, "image_std": STD}
    if vit:
        model |= {"patch": 4, "pre_norm": True, "qkv_bias": name in weights,
                  "pooling": "cls" if "cls_token" in weights else "mean", "fc_norm": "fc_norm.weight" in weights}
    else:
        model |= {"stem": "cct", "block": "cct", "convs": sum(n.startswith("tokenizer") for n in weights),
                  "kernel": weights["tokenizer.conv_layers.0.0.weight"].shape[-1],
                  "pooling": "cls" if name in weights else "sequence"}
    network = (Vit if vit else Cct)({"model": model, "norm": {"name": "ln", "options": {"eps": eps}}}).double()
    network.load_state_dict(weights)
    with torch.no_grad():
        return network(pixels)


def convert(files, name, weights, *more):
    path = os.path.join(files, name + (".safetensors" if "safe" in name else ".pt"))
    if "safe" in name:
        save_tensors(path, weights)
    else:
        torch.save({"state_dict": dict(weights)} if "nested" in name else dict(weights), path)
    return printed_by(vision_import.main, path, os.path.join(files, name), "--heads", str(HEADS), *more)


def check_logits(files, name, weights, size, eps, *more):
    statistics = ["--mean", *map(str, MEAN), "--std", *map(str, STD)]
    print(convert(files, name, weights, *statistics, *more).strip())
    images = torch.randint(0, 256, (4, size, size, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    want = logits_by_pytorch(weights, images, eps)
    expect_near_greatest(name, logits_of(os.path.join(files, name), images=images).double(), want, TOLERANCE)


def check_refusals(files):
    vit, cct = vit_weights(True, True), cct_weights(1, 3, 16)
    without_norm = {name: t for name, t in vit.items() if name != "norm.bias"}
    for name, weights, message in (
            ("other", {"fc.weight": torch.ones(2, 2)}, "has neither patch_embed.proj.weight, as timm's"),
            ("unknown", {**vit, "blocks.0.ls1.gamma": torch.ones(WIDTH)},
             "weights that foldgrad's model does not have: blocks.0.ls1.gamma; that are missing: none"),
            ("missing", without_norm, "that are missing: norm.bias"),
            ("fc-norm", vit_weights(True, True, "fc_norm"), "model does not have: cls_token; that are missing: none"),
            ("no-head", {n: t for n, t in vit.items() if n != "head.weight"}, "lacks head.weight"),
            ("square", {**cct, "classifier.positional_emb": torch.ones(1, 15, WIDTH)}, "are 15, which is no square"),
            ("nested-deep", {"optimizer": 3}, "is no state_dict")):
        expect_refused(files, name, convert(files, name, weights), message)


def main():
    with tempfile.TemporaryDirectory() as files:
        check_logits(files, "vit", vit_weights(True, True), 8, 1e-6)
        check_logits(files, "vit-mean-safe", vit_weights(False, False), 8, 1e-6)
        check_logits(files, "vit-fc-norm-safe", vit_weights(False, True, "fc_norm"), 8, 1e-6)
        check_logits(files, "vit-eps-nested", vit_weights(True, False), 8, 0.1, "--eps", "0.1")
        check_logits(files, "cct", cct_weights(1, 3, 16), 8, 1e-5)
        check_logits(files, "cct-two-nested", cct_weights(2, 3, 9), 12, 1e-5)
        check_logits(files, "cct-seven", cct_weights(1, 7, 4, cls=True), 8, 1e-5)
        check_logits(files, "cct-odd", cct_weights(1, 3, 16), 7, 1e-5, "--image-size", "7")
        names = os.path.join(files, "names")
        with open(names, "w") as file:
            file.write("cat\ndog\neel\n")
        check_logits(files, "vit-names", vit_weights(True, True), 8, 1e-6, "--classes", names)
        check_refusals(files)


if __name__ == "__main__":
    main()
