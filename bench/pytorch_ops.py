#!/usr/bin/env python3
"""Times the operations of ops_bench in PyTorch, with the same sizes and names.

    python pytorch_ops.py [--threads 2] [--seconds 0.3] [--filter softmax]

Prints one JSON object: name -> seconds of every repetition, and the setup under "context". "copy/16MiB" is a plain
copy from one tensor to another.
"""
import json
import re
import time

import torch
import torch.nn.functional as F

from pytorch_measure import begin, parser


def cases():
    """Yields (name, operands, function); floating-point operands receive gradients."""
    R, C = 8192, 512
    size = f"/{R}x{C}"
    x, z, bias = torch.randn(R, C), torch.randn(R, C), torch.randn(C)
    yield "relu" + size, [x], F.relu
    yield "gelu" + size, [x], F.gelu
    yield "gelu_tanh" + size, [x], lambda a: F.gelu(a, approximate="tanh")
    yield "add" + size, [x, z], torch.add
    yield "bias_gelu" + size, [x, bias], lambda a, b: F.gelu(a + b)
    yield "dropout" + size, [x], lambda a: F.dropout(a, 0.1)
    yield "bias_dropout_residual" + size, [x, bias, z], lambda a, b, r: r + F.dropout(a + b, 0.1)
    yield "layer_norm" + size, [x, bias, torch.randn(C)], lambda a, g, b: F.layer_norm(a, (C,), g, b)
    yield "rms_norm" + size, [x, bias], lambda a, g: F.rms_norm(a, (C,), g, 1e-6)
    mean, variance = torch.zeros(C), torch.ones(C)
    yield "batch_norm" + size, [x, bias, torch.randn(C)], lambda a, g, b: F.batch_norm(a, mean, variance, g, b, True)
    yield "softmax" + size, [x], lambda a: F.softmax(a, -1)
    yield "embedding/10000x512/4096", [torch.randn(10000, 512), torch.randint(10000, (64, 64))], lambda w, i: F.embedding(i, w)
    yield ("split_heads/128x64x512", [torch.randn(128, 64, 512)],
           lambda a: a.view(128, 64, 8, 64).transpose(1, 2).contiguous())
    yield ("cross_entropy/2048x10000", [torch.randn(2048, 10000), torch.randint(10000, (2048,))],
           lambda a, t: F.cross_entropy(a, t, label_smoothing=0.1, reduction="sum"))
    for rows, i, o in [(2048, 512, 512), (2048, 512, 1024), (2048, 1024, 512), (2048, 1024, 1024), (8192, 384, 1536)]:
        yield f"linear/{rows}x{i}x{o}", [torch.randn(rows, i), torch.randn(o, i), torch.randn(o)], F.linear
    for causal in (False, True):
        for B, T, H, D in [(32, 64, 8, 64), (64, 32, 4, 128)]:
            q, k, v = (torch.randn(B, H, T, D) for _ in range(3))
            yield (f"attention{'_causal' if causal else ''}/{B}x{T}x{H}x{D}", [q, k, v],
                   lambda a, b, c, causal=causal: F.scaled_dot_product_attention(a, b, c, is_causal=causal))
    yield from image_cases()


def channels_last(tensor):
    return tensor.contiguous(memory_format=torch.channels_last)


def pool(x):
    return F.max_pool2d(x, 3, 2, 1)


def standardize(w, g):
    centred = w - w.mean(1, keepdim=True)
    return g[:, None] * centred / centred.square().sum(1, keepdim=True).clamp(min=1e-4).sqrt()


def image_cases():
    """Yields the cases of vision models. The images that a first convolution reads are not operands: they need no
    gradient."""
    yield "max_pool2d/128x32x32x64", [channels_last(torch.randn(128, 64, 32, 32))], pool
    yield ("weighted_pool/512x64x128", [torch.randn(512, 64, 128), torch.randn(512, 64)],
           lambda x, w: torch.matmul(w.unsqueeze(1), x).squeeze(1))
    mean, std = torch.zeros(3), torch.ones(3)
    yield ("image_input/1024x32x32x3", [torch.randint(256, (1024, 32, 32, 3), dtype=torch.uint8)],
           lambda x: (x.float() / 255 - mean) / std)
    yield "weight_standardize/2048x2048", [torch.randn(2048, 2048), torch.randn(2048)], standardize
    yield ("drop_path/128x64x512", [torch.randn(128, 64, 512), torch.randn(512), torch.randn(128, 64, 512)],
           lambda x, b, r: r + (x + b) * (torch.empty(128, 1, 1).bernoulli_(0.9) / 0.9))
    for dtype, suffix in ((torch.float32, ""), (torch.bfloat16, "/bf16")):
        x = channels_last(torch.randn(128, 64, 16, 16, dtype=dtype))
        w, w2 = (channels_last(torch.randn(shape, dtype=dtype)) for shape in ((64, 3, 3, 3), (128, 64, 3, 3)))
        image = channels_last(torch.randn(128, 3, 32, 32, dtype=dtype))
        yield "conv2d/128x16x16x64x128" + suffix, [x, w2], lambda a, b: F.conv2d(a, b, padding=1)
        yield ("conv2d_relu_image/128x32x32x3x64" + suffix, [w],
               lambda a, image=image: F.conv2d(image, a, padding=1).relu())
        yield ("cct_stem/128x32x32x3x64x128" + suffix, [w, w2],
               lambda a, b, image=image: pool(F.conv2d(pool(F.conv2d(image, a, padding=1).relu()), b, padding=1).relu()))


def measure(operands, function, seconds):
    """Runs the function for about `seconds`, after a warm-up. Returns the seconds of each forward pass and of each
    backward pass, if any."""
    forward, backward, dy = [], [], None
    operands = [t.requires_grad_() if t.is_floating_point() else t for t in operands]
    end = None
    while end is None or time.perf_counter() < end or len(forward) < 5:
        for t in operands:
            t.grad = None
        start = time.perf_counter()
        y = function(*operands)
        middle = time.perf_counter()
        if dy is None:
            dy = torch.full_like(y, 0.5)
        begin_backward = time.perf_counter()
        if y.requires_grad:
            y.backward(dy)
        stop = time.perf_counter()
        if end is None:  # the first round is a warm-up
            end = time.perf_counter() + seconds
            continue
        forward.append(middle - start)
        if y.requires_grad:
            backward.append(stop - begin_backward)
    return forward, backward


def measure_copy(seconds):
    """Returns the seconds of each copy of 16 MiB, the size of an operand of the elementwise operations."""
    source = torch.randn(8192, 512)
    target = torch.empty_like(source)
    target.copy_(source)
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        target.copy_(source)
        times.append(time.perf_counter() - start)
    return times


def main():
    arguments, result = begin(parser(__doc__, seconds=0.3))
    result["copy/16MiB"] = measure_copy(arguments.seconds)
    for name, operands, function in cases():
        if re.search(arguments.filter, name):
            forward, backward = measure(operands, function, arguments.seconds)
            result[name + "/forward"] = forward
            if backward:
                result[name + "/backward"] = backward
    print(json.dumps(result))


if __name__ == "__main__":
    main()
