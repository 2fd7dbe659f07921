"""Tests examples/vision_import.py: with imported weights, foldgrad must compute the logits of the published models.
The weights are random."""
import importlib.util
import os
import tempfile

from setting import expect_near_greatest, expect_refused, logits_of, printed_by, require

require("numpy", "safetensors", "torch")
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import vision_import  # noqa: E402
from model_files import save_tensors  # noqa: E402
from pytorch_cct import Cct  # noqa: E402
from pytorch_vit import Vit  # noqa: E402

TOLERANCE = 1e-5  # relative to the largest logit; foldgrad computes in f32, PyTorch in f64
WIDTH, HEADS, FFN, CLASSES = 8, 2, 12, 3
CHANNELS, DEPTHS = (4, 6, 8, 10), (1, 2, 1, 1)  # of ConvNeXt's four stages
MEAN, STD = [0.5, 0.4, 0.3], [0.2, 0.25, 0.3]


class Weights(dict):
    """Random weights by name. Gains of normalizers (NAME.weight with "norm" in its name) are around 1, all others
    around 0."""

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
    """Returns a ViT's weights with timm's names, for images of 8 x 8 pixels and patches of 4 x 4."""
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


def add_conv(w, name, out, channels, kernel, bias=True):
    w.add(name + ".weight", out, channels, kernel, kernel)
    w[name + ".weight"] *= 2.5 / (channels * kernel * kernel) ** 0.5  # keeps the scale of activations
    if bias:
        w.add(name + ".bias", out)


def add_norm(w, name, channels):
    w.add(name + ".weight", channels)
    w[name + ".weight"] += 1
    w.add(name + ".bias", channels)


def convnext_weights():
    """Returns a ConvNeXt's weights with timm's names, for patches of 4 x 4 and four stages of one or two blocks."""
    w = Weights(3)
    add_conv(w, "stem.0", CHANNELS[0], 3, 4)
    add_norm(w, "stem.1", CHANNELS[0])
    for s, (depth, width) in enumerate(zip(DEPTHS, CHANNELS)):
        if s:
            add_norm(w, f"stages.{s}.downsample.0", CHANNELS[s - 1])
            add_conv(w, f"stages.{s}.downsample.1", width, CHANNELS[s - 1], 2)
        for block in (f"stages.{s}.blocks.{b}" for b in range(depth)):
            add_conv(w, block + ".conv_dw", width, 1, 7)
            add_norm(w, block + ".norm", width)
            w.linear(block + ".mlp.fc1", 4 * width, width)
            w.linear(block + ".mlp.fc2", width, 4 * width)
            w.add(block + ".gamma", width)
    add_norm(w, "head.norm", CHANNELS[-1])
    w.linear("head.fc", CLASSES, CHANNELS[-1])
    return w


def convnext_by_pytorch(w, x, eps):
    def layer(f, x, name, **more):
        return f(x, w[name + ".weight"], w[name + ".bias"], **more)

    def norm(x, name):  # over C of [B, C, H, W]; returns [B, H, W, C]
        return layer(lambda x, *p: F.layer_norm(x, x.shape[-1:], *p, eps), x.movedim(1, -1), name)

    x = norm(layer(F.conv2d, x, "stem.0", stride=4), "stem.1").movedim(-1, 1)
    for s, depth in enumerate(DEPTHS):
        if s:
            down = f"stages.{s}.downsample."
            x = layer(F.conv2d, norm(x, down + "0").movedim(-1, 1), down + "1", stride=2)
        for block in (f"stages.{s}.blocks.{b}" for b in range(depth)):
            y = norm(layer(F.conv2d, x, block + ".conv_dw", padding=3, groups=x.shape[1]), block + ".norm")
            y = layer(F.linear, F.gelu(layer(F.linear, y, block + ".mlp.fc1")), block + ".mlp.fc2")
            x = x + (w[block + ".gamma"] * y).movedim(-1, 1)
    return layer(F.linear, norm(x.mean((2, 3)), "head.norm"), "head.fc")


def lite_layers():
    """Returns [(convolution, its normalizer, out, in, kernel, stride, is depthwise)] of EfficientNet-Lite0."""
    layers, width, number = [("_conv_stem", "_bn0", 32, 3, 3, 2, False)], 32, 0
    stages = ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112),
              (4, 5, 2, 6, 192), (1, 3, 1, 6, 320))
    for blocks, kernel, stride, widening, out in stages:
        for i in range(blocks):
            block, wide = f"_blocks.{number}.", widening * width
            if widening > 1:
                layers.append((block + "_expand_conv", block + "_bn0", wide, width, 1, 1, False))
            step = stride if i == 0 else 1
            layers.append((block + "_depthwise_conv", block + "_bn1", wide, wide, kernel, step, True))
            layers.append((block + "_project_conv", block + "_bn2", out, wide, 1, 1, False))
            width, number = out, number + 1
    return layers + [("_conv_head", "_bn1", 1280, width, 1, 1, False)]


def lite_weights():
    """Returns an EfficientNet-Lite0's weights with the names of efficientnet-lite-pytorch."""
    w = Weights(4)
    for conv, norm, out, width, kernel, _, depthwise in lite_layers():
        add_conv(w, conv, out, 1 if depthwise else width, kernel, bias=False)
        add_norm(w, norm, out)
        w.add(norm + ".running_mean", out)
        w.add(norm + ".running_var", out)
        w[norm + ".running_var"] = w[norm + ".running_var"] ** 2 + 0.5
        w[norm + ".num_batches_tracked"] = torch.tensor(7)
    w.linear("_fc", CLASSES, 1280)
    return w


def lite_by_pytorch(w, x, eps):
    block = x
    for conv, norm, _, width, kernel, stride, depthwise in lite_layers():
        zeros = max((-(-x.shape[-1] // stride) - 1) * stride + kernel - x.shape[-1], 0)  # TensorFlow's padding SAME
        x = F.pad(x, (zeros // 2, zeros - zeros // 2) * 2)
        x = F.conv2d(x, w[conv + ".weight"], stride=stride, groups=width if depthwise else 1)
        x = F.batch_norm(x, w[norm + ".running_mean"], w[norm + ".running_var"], w[norm + ".weight"], w[norm + ".bias"],
                         eps=eps)
        if not conv.endswith("_project_conv"):
            x = F.relu6(x)
        elif x.shape == block.shape:
            x = x + block
        if conv.endswith(("_stem", "_project_conv")):
            block = x
    return F.linear(x.mean((2, 3)), w["_fc.weight"], w["_fc.bias"])


def normalized(pixels):
    """Returns the normalized images in f64, [B, 3, H, W]."""
    images = (pixels / 255 - torch.tensor(MEAN, dtype=torch.float64)) / torch.tensor(STD, dtype=torch.float64)
    return images.movedim(-1, 1)


def logits_by_pytorch(weights, pixels, eps):
    """Returns the published model's logits in f64. The functions above compute ConvNeXt and EfficientNet-Lite. The
    models of examples/, whose parameters have the published names, compute ViT and CCT."""
    for name, network in (("stem.0.weight", convnext_by_pytorch), ("_conv_stem.weight", lite_by_pytorch)):
        if name in weights:
            return network({n: t.double() for n, t in weights.items()}, normalized(pixels), eps)
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
    return network(pixels)


def convert(files, name, weights, *more):
    path = os.path.join(files, name + (".safetensors" if "safe" in name else ".pt"))
    if "safe" in name:
        save_tensors(path, weights)
    else:
        torch.save({"state_dict": dict(weights)} if "nested" in name else dict(weights), path)
    return printed_by(vision_import.main, path, os.path.join(files, name), "--heads", str(HEADS), *more)


def check_logits(files, name, weights, size, eps, *more, by=logits_by_pytorch):
    statistics = ["--mean", *map(str, MEAN), "--std", *map(str, STD)]
    print(convert(files, name, weights, *statistics, *more).strip())
    images = torch.randint(0, 256, (4, size, size, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        want = by(weights, images, eps)
    expect_near_greatest(name, logits_of(os.path.join(files, name), images=images).double(), want, TOLERANCE)


def check_timm(files):
    if not importlib.util.find_spec("timm"):
        return print("timm's models are skipped, since there is no timm")
    import timm
    convnext = {"depths": (1, 2, 1, 1), "dims": (8, 12, 16, 20), "num_classes": CLASSES}
    for name, size, options in (
            ("swin_tiny_patch4_window7_224", 32,
             {"img_size": 32, "patch_size": 2, "window_size": 4, "embed_dim": 8, "depths": (2, 2), "num_heads": (2, 4),
              "num_classes": CLASSES}),
            ("convnext_tiny", 32, convnext),
            ("convnext_atto", 32, convnext),  # its linear layers are 1 x 1 convolutions
            ("tf_efficientnet_lite0", 64, {"num_classes": CLASSES})):
        model, generator = timm.create_model(name, **options).eval(), torch.Generator().manual_seed(5)
        for key, t in model.state_dict().items():
            if t.ndim > 1:
                t.copy_(torch.randn(t.shape, generator=generator) * t[0].numel() ** -0.5)
            elif t.ndim == 1 and key.endswith(("weight", "gamma", "running_var")):
                t.copy_(0.5 + torch.rand(t.shape, generator=generator))
            elif t.ndim == 1:
                t.copy_(torch.randn(t.shape, generator=generator) * 0.3)
        weights = {key: t.clone() for key, t in model.state_dict().items()}
        model.double()
        check_logits(files, name, weights, size, None, "--image-size", str(size),
                     by=lambda weights, pixels, eps: model(normalized(pixels)))


def check_refusals(files):
    vit, cct = vit_weights(True, True), cct_weights(1, 3, 16)
    without_norm = {name: t for name, t in vit.items() if name != "norm.bias"}
    for name, weights, message in (
            ("other", {"fc.weight": torch.ones(2, 2)}, "has neither patch_embed.proj.weight, as in timm's"),
            ("unknown", {**vit, "blocks.0.ls1.gamma": torch.ones(WIDTH)},
             "weights that foldgrad's model does not have: blocks.0.ls1.gamma; missing weights: none"),
            ("missing", without_norm, "missing weights: norm.bias"),
            ("fc-norm", vit_weights(True, True, "fc_norm"), "model does not have: cls_token; missing weights: none"),
            ("convnext-extra", {**convnext_weights(), "head.extra": torch.ones(2)},
             "weights that foldgrad's model does not have: head.extra; missing weights: none"),
            ("swin", {"patch_embed.proj.weight": torch.ones(4, 3, 2, 2), "head.weight": torch.ones(2, 8),
                      "layers.0.blocks.0.attn.relative_position_bias_table": torch.ones(8, 2)},
             "rows in the bias table must be a square, got 8"),
            ("lite1", {**lite_weights(), "_blocks.16._bn0.weight": torch.ones(4)},
             "weights that foldgrad's model does not have: blocks.16.bn0.weight; missing weights: none"),
            ("no-head", {n: t for n, t in vit.items() if n != "head.weight"}, "lacks head.weight"),
            ("square", {**cct, "classifier.positional_emb": torch.ones(1, 15, WIDTH)}, "must be a square, got 15"),
            ("nested-deep", {"optimizer": 3}, "is not a state_dict")):
        expect_refused(files, name, convert(files, name, weights), message)


def main():
    with tempfile.TemporaryDirectory() as files:
        check_logits(files, "vit", vit_weights(True, True), 8, 1e-6)
        check_logits(files, "vit-mean-safe", vit_weights(False, False), 8, 1e-6)
        check_logits(files, "vit-fc-norm-safe", vit_weights(False, True, "fc_norm"), 8, 1e-6)
        check_logits(files, "vit-eps-nested", vit_weights(True, False), 8, 0.1, "--eps", "0.1")
        check_logits(files, "convnext", convnext_weights(), 32, 1e-6, "--image-size", "32")
        check_logits(files, "lite-safe", lite_weights(), 33, 1e-3, "--image-size", "33")
        check_logits(files, "cct", cct_weights(1, 3, 16), 8, 1e-5)
        check_logits(files, "cct-two-nested", cct_weights(2, 3, 9), 12, 1e-5)
        check_logits(files, "cct-seven", cct_weights(1, 7, 4, cls=True), 8, 1e-5)
        check_logits(files, "cct-odd", cct_weights(1, 3, 16), 7, 1e-5, "--image-size", "7")
        names = os.path.join(files, "names")
        with open(names, "w") as file:
            file.write("cat\ndog\neel\n")
        check_logits(files, "vit-names", vit_weights(True, True), 8, 1e-6, "--classes", names)
        check_timm(files)
        check_refusals(files)


if __name__ == "__main__":
    main()
