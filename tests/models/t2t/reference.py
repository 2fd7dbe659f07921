#!/usr/bin/env python3
"""Prints the logits that t2t_test.cpp expects. The published PyTorch modules (examples/pytorch_t2t.py) compute them
in f64.

Parameters are sorted by name. Element i of parameter k is 0.3 sin(1.7 k + 0.61 i), plus 1 for gains; pixel i is
sin(0.37 i).
"""
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
from pytorch_t2t import T2t  # noqa: E402

MODEL = {"image_size": 8, "classes": 5, "kernels": [4, 3, 3], "strides": [2, 2, 1], "paddings": [1, 1, 1],
         "token_width": 4, "width": 8, "ffn_width": 12, "heads": 2, "layers": 2, "pooling": "cls", "activation": "gelu"}


def waves(shape, phase, frequency):
    size = torch.Size(shape).numel()
    return torch.sin(phase + frequency * torch.arange(size, dtype=torch.float64)).reshape(shape)


for token_attention in ("performer", "softmax"):
    model = T2t({"model": MODEL | {"token_attention": token_attention}, "norm": {"name": "ln"}}).double().eval()
    for k, (name, value) in enumerate(sorted(model.state_dict().items())):
        gain = "norm" in name and name.endswith("weight")
        value.copy_(0.3 * waves(value.shape, 1.7 * k, 0.61) + gain)
    with torch.no_grad():
        logits = model(waves((2, 8, 8, 3), 0, 0.37))
    print(token_attention, ", ".join(repr(x) for x in logits.flatten().tolist()))
