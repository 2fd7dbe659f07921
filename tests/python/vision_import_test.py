"""examples/vision_import.py: what foldgrad computes with imported weights is what the published models compute."""
import os
import tempfile

from setting import logits_of, printed_by, require

require("torch")
import sys  # noqa: E402

import torch  # noqa: E402
import vision_import  # noqa: E402
from model_files import save_tensors  # noqa: E402
from torch.nn import functional as F  # noqa: E402

TOLERANCE = 1e-5  # of the greatest logit: f32 here and f64 there
WIDTH, HEADS, FFN, CLASSES = 8, 2, 12, 3
MEAN, STD = [0.5, 0.4, 0.3], [0.2, 0.25, 0.3]


class Weights(dict):
    """Random ones, by name; gains are near 1."""

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


def vit_weights(cls, qkv_bias):
    """With timm's names: patches of 4 of images of 8."""
    w = Weights(1)
    w.add("patch_embed.proj.weight", WIDTH, 3, 4, 4)
    w.add("patch_embed.proj.bias", WIDTH)
    if cls:
        w.add("cls_token", 1, 1, WIDTH)
    w.add("pos_embed", 1, 4 + cls, WIDTH)
    for i in range(2):
        block_of(w, f"blocks.{i}", ("norm1", "norm2"), "attn", ("mlp.fc1", "mlp.fc2"), qkv_bias)
    w.norm("norm")
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


class Reference:
    """The published forward passes, in f64."""

    def __init__(self, weights, eps):
        self.w, self.eps = {name: t.double() for name, t in weights.items()}, eps

    def linear(self, name, x):
        return F.linear(x, self.w[name + ".weight"], self.w.get(name + ".bias"))

    def norm(self, name, x):
        return F.layer_norm(x, (WIDTH,), self.w[name + ".weight"], self.w[name + ".bias"], self.eps)

    def attend(self, name, x):
        B, N, C = x.shape
        q, k, v = self.linear(name + ".qkv", x).reshape(B, N, 3, HEADS, C // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, N, C)
        return self.linear(name + ".proj", y)

    def vit(self, x):
        w = self.w
        x = F.conv2d(x, w["patch_embed.proj.weight"], w["patch_embed.proj.bias"], stride=4).flatten(2).transpose(1, 2)
        if "cls_token" in w:
            x = torch.cat([w["cls_token"].expand(len(x), -1, -1), x], 1)
        x = x + w["pos_embed"]
        for i in range(2):
            x = x + self.attend(f"blocks.{i}.attn", self.norm(f"blocks.{i}.norm1", x))
            hidden = F.gelu(self.linear(f"blocks.{i}.mlp.fc1", self.norm(f"blocks.{i}.norm2", x)))
            x = x + self.linear(f"blocks.{i}.mlp.fc2", hidden)
        x = self.norm("norm", x)
        return self.linear("head", x[:, 0] if "cls_token" in w else x.mean(1))

    def cct(self, x):
        w = self.w
        for name in (f"tokenizer.conv_layers.{i}.0.weight" for i in range(6)):
            if name in w:
                kernel = w[name].shape[-1]
                x = F.conv2d(x, w[name], stride=max(1, kernel // 2 - 1), padding=max(1, kernel // 2))
                x = F.max_pool2d(F.relu(x), 3, 2, 1)
        x = x.flatten(2).transpose(-2, -1)
        if "classifier.class_emb" in w:
            x = torch.cat([w["classifier.class_emb"].expand(len(x), -1, -1), x], 1)
        x = x + w["classifier.positional_emb"]
        for i in range(2):
            name = f"classifier.blocks.{i}"
            x = x + self.attend(f"{name}.self_attn", self.norm(f"{name}.pre_norm", x))
            x = self.norm(f"{name}.norm1", x)
            x = x + self.linear(f"{name}.linear2", F.gelu(self.linear(f"{name}.linear1", x)))
        x = self.norm("classifier.norm", x)
        if "classifier.class_emb" in w:
            return self.linear("classifier.fc", x[:, 0])
        weights = F.softmax(self.linear("classifier.attention_pool", x), dim=1)
        return self.linear("classifier.fc", torch.matmul(weights.transpose(-1, -2), x).squeeze(-2))


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
    pixels = (images.double() / 255 - torch.tensor(MEAN).double()) / torch.tensor(STD).double()
    reference = Reference(weights, eps)
    want = (reference.vit if "patch_embed.proj.weight" in weights else reference.cct)(pixels.permute(0, 3, 1, 2))
    off = ((logits_of(os.path.join(files, name), images=images).double() - want).abs().max() / want.abs().max()).item()
    print(f"{name}: logits differ by {off:.1e} of the greatest")
    if not off <= TOLERANCE:
        sys.exit(f"{name}: at most {TOLERANCE} is allowed")


def check_refusals(files):
    vit, cct = vit_weights(True, True), cct_weights(1, 3, 16)
    without_norm = {name: t for name, t in vit.items() if name != "norm.bias"}
    for name, weights, message in (
            ("other", {"fc.weight": torch.ones(2, 2)}, "has neither patch_embed.proj.weight, as timm's"),
            ("unknown", {**vit, "blocks.0.ls1.gamma": torch.ones(WIDTH)},
             "weights that foldgrad's model does not have: blocks.0.ls1.gamma; that are missing: none"),
            ("missing", without_norm, "that are missing: norm.bias"),
            ("fc-norm", {("fc_" + n if n.startswith("norm.") else n): t for n, t in vit.items()},
             "fc_norm stands after"),
            ("no-head", {n: t for n, t in vit.items() if n != "head.weight"}, "lacks head.weight"),
            ("square", {**cct, "classifier.positional_emb": torch.ones(1, 15, WIDTH)}, "are 15, which is no square"),
            ("nested-deep", {"optimizer": 3}, "is no state_dict")):
        printed = convert(files, name, weights)
        if message not in printed or os.path.exists(os.path.join(files, name)):
            sys.exit(f"{name}: must say {message!r} and write nothing, got {printed!r}")


def main():
    with tempfile.TemporaryDirectory() as files:
        check_logits(files, "vit", vit_weights(True, True), 8, 1e-6)
        check_logits(files, "vit-mean-safe", vit_weights(False, False), 8, 1e-6)
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
