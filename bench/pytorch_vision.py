#!/usr/bin/env python3
"""Times the work of vision_bench in PyTorch, with the same models, sizes and names.

    python pytorch_vision.py [--threads 2] [--seconds 10] [--filter cct] [--compile | --onnxruntime]

The normalizer is layer normalization; nfnet_micro has none. f32 runs without autocast, bf16 with autocast and f32
weights. The code is what a careful user of PyTorch would write: channels last, fused attention, and AdamW in one
kernel. With --onnxruntime, onnxruntime runs PyTorch's export, for inference in f32 only. swin_nano, swin_t and
nfnet_micro are from timm. Prints one JSON object: name -> seconds of every step, and the setup under "context".
"""
import contextlib
import json
import math
import re
import sys
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

from pytorch_measure import begin, exported, measure, parser


class Block(nn.Module):
    def __init__(self, width, heads, ffn):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, ffn), nn.Linear(ffn, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Vit(nn.Module):
    """ViT-S with patches of 4 x 4 and a class token."""

    def __init__(self, width=384, heads=6, ffn=1536, layers=12):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.cls, self.positions = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.zeros(1, 65, width))
        self.blocks = nn.Sequential(*(Block(width, heads, ffn) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class Cct(nn.Module):
    """CCT-4/3x2 with pre-norm blocks."""

    def __init__(self, width=128, heads=2, ffn=128, layers=4):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Conv2d(64, width, 3, 1, 1, bias=False)
        self.positions = nn.Parameter(torch.zeros(1, 64, width))
        self.blocks = nn.Sequential(*(Block(width, heads, ffn) for _ in range(layers)))
        self.norm, self.pool, self.head = nn.LayerNorm(width), nn.Linear(width, 1), nn.Linear(width, 10)

    def forward(self, x):
        for conv in (self.conv1, self.conv2):
            x = F.max_pool2d(F.relu(conv(x)), 3, 2, 1)
        x = self.norm(self.blocks(x.flatten(2).transpose(1, 2) + self.positions))
        weights = self.pool(x).softmax(1)
        return self.head((weights.transpose(1, 2) @ x).squeeze(1))


class ConvNextBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width, eps=1e-6)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x):  # channels last in memory
        y = self.norm(self.conv(x).permute(0, 2, 3, 1))
        return x + (self.gamma * self.fc2(F.gelu(self.fc1(y)))).permute(0, 3, 1, 2)


class PixelNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    """convnext-micro."""

    def __init__(self, widths=(48, 96, 192)):
        super().__init__()
        layers, width = [nn.Conv2d(3, widths[0], 2, 2), PixelNorm(widths[0], eps=1e-6)], widths[0]
        for next_width in widths:
            if next_width != width:
                layers += [PixelNorm(width, eps=1e-6), nn.Conv2d(width, next_width, 2, 2)]
            layers += [ConvNextBlock(next_width), ConvNextBlock(next_width)]
            width = next_width
        self.layers, self.norm = nn.Sequential(*layers), nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.norm(self.layers(x).mean((2, 3))))


class T2tMicro(nn.Module):
    """t2t-micro: the token modules of examples/pytorch_t2t.py, and blocks with the fused attention."""

    def __init__(self):
        super().__init__()
        sys.path.append(str(Path(__file__).parents[1] / "examples"))
        from pytorch_t2t import T2t

        self.model = T2t({"model": {"image_size": 32, "classes": 10, "kernels": [7, 3, 3], "strides": [2, 2, 1],
                                    "paddings": [3, 1, 1], "token_width": 64, "token_attention": "performer",
                                    "width": 192, "ffn_width": 384, "heads": 3, "layers": 6, "pooling": "cls",
                                    "activation": "gelu"}, "norm": {"name": "ln"}})
        self.model.blocks = nn.ModuleList(Block(192, 3, 384) for _ in range(6))

    def forward(self, x):
        return self.model(x.permute(0, 2, 3, 1))


def swin_nano():
    import timm  # imported here, since the other models do not need it

    return timm.create_model("swin_tiny_patch4_window7_224", img_size=32, patch_size=2, window_size=4, embed_dim=48,
                             depths=(2, 2, 2), num_heads=(3, 6, 12), num_classes=10, drop_path_rate=0)


def swin_t():
    import timm

    return timm.create_model("swin_tiny_patch4_window7_224", num_classes=10, drop_path_rate=0)


def nfnet_micro():
    from timm.models.nfnet import NfCfg, NormFreeNet

    model = NormFreeNet(NfCfg(depths=(1, 1, 2, 1), channels=(64, 128, 384, 384), stem_type="deep_quad", stem_chs=32,
                              group_size=32, extra_conv=True, gamma_in_act=True, same_padding=True, skipinit=True,
                              num_features=768, act_layer="gelu", attn_layer="se", attn_kwargs={"rd_ratio": 0.5}),
                        num_classes=10, drop_rate=0.2, drop_path_rate=0.25)
    model.stem.conv1.stride = (1, 1)
    return model


TASKS = {"vit_s4": (Vit, 64, 32), "cct4_3x2": (Cct, 128, 32), "t2t_micro": (T2tMicro, 128, 32),
         "swin_nano": (swin_nano, 128, 32), "convnext_micro": (ConvNext, 128, 32), "swin_t": (swin_t, 32, 224),
         "nfnet_micro": (nfnet_micro, 128, 32)}  # model, images, pixels on a side


def pixels(images):
    """Converts bytes, channels last in memory, to a model's input, as vision_bench's models do themselves."""
    return images.float().div_(255).sub_(0.5).div_(0.25)


class Pixels(nn.Module):
    def forward(self, images):
        return (images.float() / 255 - 0.5) / 0.25


def batch_of(batch, side):
    images = torch.randint(0, 256, (batch, 3, side, side), dtype=torch.uint8).to(memory_format=torch.channels_last)
    return images, torch.randint(0, 10, (batch,))


def autocast(bf16):
    return torch.autocast("cpu", torch.bfloat16) if bf16 else contextlib.nullcontext()


def step_of(model, batch, side, bf16, compiled):
    model.to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05, fused=True)
    images, target = batch_of(batch, side)
    call = torch.compile(model) if compiled else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        with autocast(bf16):
            logits = call(pixels(images))
        F.cross_entropy(logits.float(), target, label_smoothing=0.1).backward()
        nn.utils.clip_grad_norm_(model.parameters(), math.inf)
        optimizer.step()

    return step


def onnxruntime_inference_of(model, batch, side, threads):
    images, _ = batch_of(batch, side)
    images = images.contiguous()
    session = exported(nn.Sequential(Pixels(), model).eval(), "images", images, threads)
    given = {"images": images.numpy()}
    with torch.inference_mode():
        want = model(pixels(images)).numpy()
    assert abs(session.run(None, given)[0] - want).max() < 1e-4 * abs(want).max(), "onnxruntime differs from PyTorch"
    return lambda: session.run(None, given)


def inference_of(model, batch, side, bf16, compiled):
    model.to(memory_format=torch.channels_last).eval()
    images, _ = batch_of(batch, side)
    call = torch.compile(model) if compiled else model

    def infer():
        with torch.inference_mode(), autocast(bf16):
            call(pixels(images))

    return infer


def main():
    options = parser(__doc__)
    how = options.add_mutually_exclusive_group()
    how.add_argument("--compile", action="store_true", help="use torch.compile")
    how.add_argument("--onnxruntime", action="store_true", help="run f32 inference with onnxruntime")
    arguments, result = begin(options)
    result["context"] |= {"compiled": arguments.compile, "onnxruntime": arguments.onnxruntime}
    for task, (make, batch, side) in TASKS.items():
        for dtype in ("f32", "bf16"):
            norm = "none" if task == "nfnet_micro" else "ln"
            for kind, timed in (("step", step_of), (f"infer/{norm}", inference_of)):
                name = f"{task}/{kind}/{dtype}"
                if not re.search(arguments.filter, name):
                    continue
                if not arguments.onnxruntime:
                    call = timed(make(), batch, side, dtype == "bf16", arguments.compile)
                elif kind.startswith("infer") and dtype == "f32":
                    call = onnxruntime_inference_of(make(), batch, side, arguments.threads)
                else:
                    continue
                result[name] = measure(call, arguments.seconds)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
