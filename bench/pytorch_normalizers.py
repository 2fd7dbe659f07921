#!/usr/bin/env python3
"""Times layers and the decoder of normalizer_bench in eager PyTorch, with the same sizes and names.

    python pytorch_normalizers.py [--threads 2] [--seconds 5] [--filter layer]

`rmsnorm` and `dyt` are chains of operations on whole tensors, as in Hugging Face's LLaMA and as the authors of Dynamic
Tanh wrote and timed them; `rms_norm` is PyTorch's own, in one kernel. Prints one JSON object: name -> seconds of every
repetition, and the setup under "context".
"""
import json
import re

import torch
import torch.nn as nn
import torch.nn.functional as F

from pytorch_language import Gpt
from pytorch_measure import begin, measure, parser

ROWS, WIDTH, VOCABULARY, CONTEXT = 4096, 4096, 1000, 2048


class RmsNormOfOperations(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        h = x.to(torch.float32)
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * h.to(x.dtype)


class DynamicTanh(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1) * 0.5)
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return torch.tanh(self.alpha * x) * self.weight + self.bias


NORMALIZERS = {"none": lambda width: nn.Identity(), "ln": nn.LayerNorm, "rmsnorm": RmsNormOfOperations,
               "rms_norm": lambda width: nn.RMSNorm(width, eps=1e-6), "dyt": DynamicTanh}


def layer(norm, training, dtype):
    module = NORMALIZERS[norm](WIDTH).to(dtype)
    x, dy = torch.randn(ROWS, WIDTH, dtype=dtype), torch.randn(ROWS, WIDTH, dtype=dtype)

    def run():
        module.zero_grad(set_to_none=True)
        if training:
            module(x.detach().requires_grad_()).backward(dy)
        else:
            with torch.inference_mode():
                module(x)

    return run


def decoder(norm, training, dtype):
    model = Gpt(0, width=512, heads=8, vocabulary=VOCABULARY, context=CONTEXT)
    for parent in [model, *model.h]:
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.LayerNorm):
                setattr(parent, name, NORMALIZERS[norm](512))
    model = model.to(dtype).train(training)
    ids = torch.randint(VOCABULARY, (1, CONTEXT))

    def run():
        model.zero_grad(set_to_none=True)
        if training:
            F.cross_entropy(model(ids).float().flatten(0, 1), ids.flatten()).backward()
        else:
            with torch.inference_mode():
                model(ids)

    return run


def main():
    arguments, result = begin(parser(__doc__, seconds=5))
    for dtype_name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        for make in (layer, decoder):
            for norm in NORMALIZERS:
                for phase in ("infer", "train"):
                    name = f"{make.__name__}/{norm}/{phase}/{dtype_name}"
                    if re.search(arguments.filter, name) and (make, norm) != (layer, "none"):
                        result[name] = measure(make(norm, phase == "train", dtype), arguments.seconds)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
