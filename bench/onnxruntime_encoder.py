#!/usr/bin/env python3
"""Times in onnxruntime and PyTorch the encoder that inference_bench times here: the same sizes, layer normalization.

    python onnxruntime_encoder.py [--threads 2] [--rounds 20] [--cpu-time]

Prints one JSON object: NAME/PROGRAM -> seconds of every round, and what was used under "context". bf16 is autocast,
compiled with frozen weights; f32 is exported to onnxruntime, eager, and compiled with frozen weights.
"""
import argparse
import json
import math
import os
import tempfile
import time

import onnxruntime
import torch
import torch._dynamo
import torch._inductor.config
import torch.nn as nn
import torch.nn.functional as F

WIDTH, FFN, HEADS, LAYERS, VOCABULARY = 512, 1024, 4, 6, 8848


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc1, self.fc2 = nn.Linear(WIDTH, FFN), nn.Linear(FFN, WIDTH)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, T, WIDTH))
        return x + self.fc2(F.relu(self.fc1(self.norm2(x))))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Embedding(VOCABULARY, WIDTH), nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.register_buffer("positions", torch.randn(1, 64, WIDTH) * 0.1)

    def forward(self, ids):
        x = self.table(ids) * math.sqrt(WIDTH) + self.positions[:, :ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def onnx_session(encoder, ids, threads):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "encoder.onnx")
        torch.onnx.export(encoder, (ids,), path, dynamo=False, opset_version=17, input_names=["ids"])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="(default: 2)")
    parser.add_argument("--rounds", type=int, default=20, help="of each (default: 20)")
    parser.add_argument("--cpu-time", action="store_true", help="of all threads, instead of what a clock shows")
    arguments = parser.parse_args()
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    result = {"context": {"onnxruntime": onnxruntime.__version__, "torch": torch.__version__, "threads": arguments.threads}}

    def measure(name, body):
        seconds = []
        for _ in range(arguments.rounds + 3):
            start = clock()
            body()
            seconds.append(clock() - start)
        result[name] = seconds[3:]  # the first only warm up, and compile

    torch._inductor.config.freezing = True
    encoder = Encoder().eval()
    with torch.no_grad():
        for batch in (32, 1):
            ids = torch.randint(0, VOCABULARY, (batch, 32))
            session, array = onnx_session(encoder, ids, arguments.threads), ids.numpy()
            measure(f"encoder/{batch}x32/f32/onnxruntime", lambda: session.run(None, {"ids": array}))
            measure(f"encoder/{batch}x32/f32/pytorch", lambda: encoder(ids))
            torch._dynamo.reset()
            compiled = torch.compile(encoder)
            measure(f"encoder/{batch}x32/f32/pytorch-compiled", lambda: compiled(ids))
            torch._dynamo.reset()
            compiled = torch.compile(encoder)
            with torch.autocast("cpu", torch.bfloat16):
                measure(f"encoder/{batch}x32/bf16/pytorch-compiled", lambda: compiled(ids))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
