#!/usr/bin/env python3
"""Times the encoder of inference_bench in PyTorch, with the same sizes and weights.

    inference_bench --save=DIR/ln
    python pytorch_inference.py DIR/ln [--threads 2] [--rounds 20] [--cpu-time]

examples/pytorch_model.py reads the model, which is then converted to the fastest form in PyTorch. The results of both
forms are compared before anything is timed. Both f32 and bf16 (by autocast) run eagerly, and compiled with frozen
weights. Prints one JSON object: NAME/PROGRAM -> seconds of every round, and the setup under "context".
"""
import argparse
import json
import math
import pathlib
import sys
import time

import torch
import torch._dynamo
import torch._inductor.config
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples"))
from pytorch_model import load_model  # noqa: E402

LENGTH = 32


class FusedLayer(nn.Module):
    """A layer with one product for queries, keys and values, and with PyTorch's own attention."""

    def __init__(self, layer):
        super().__init__()
        attention = layer.self_attn
        parts = [attention.q_proj, attention.k_proj, attention.v_proj]
        width = parts[0].in_features
        self.heads, self.qkv = attention.heads, nn.Linear(width, 3 * width)
        self.qkv.weight.copy_(torch.cat([p.weight for p in parts]))
        self.qkv.bias.copy_(torch.cat([p.bias for p in parts]))
        self.out, self.fc1, self.fc2, self.activation = attention.out_proj, layer.fc1, layer.fc2, layer.activation
        self.norm1, self.norm2 = layer.self_attn_layer_norm, layer.final_layer_norm

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4).unbind()
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, T, C))
        return x + self.fc2(self.activation(self.fc1(self.norm2(x))))


class FusedEncoder(nn.Module):
    """The encoder of a pre-norm model, for sentences without padding."""

    def __init__(self, model):
        super().__init__()
        stack = model.encoder
        self.table, self.norm = stack.embed_tokens, stack.layer_norm
        with torch.no_grad():
            self.layers = nn.ModuleList(FusedLayer(layer) for layer in stack.layers)
        self.register_buffer("positions", model.positions[None, 2:])  # the first token has position 2

    def forward(self, ids):
        x = self.table(ids) * math.sqrt(self.table.embedding_dim) + self.positions[:, :ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def fused_encoder(directory):
    model = load_model(directory)
    encoder = FusedEncoder(model).eval()
    ids = random_ids(encoder, 4)
    with torch.no_grad():
        want = model.encode(ids, torch.ones_like(ids, dtype=torch.bool))
        error = (encoder(ids) - want).abs().max() / want.abs().max()
    assert error < 1e-5, f"the two forms of the encoder differ by {error}"
    return encoder


def random_ids(encoder, batch):
    return torch.randint(4, encoder.table.num_embeddings, (batch, LENGTH))


def argument_parser(doc):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="model directory")
    parser.add_argument("--threads", type=int, default=2, help="(default: 2)")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of each benchmark (default: 20)")
    parser.add_argument("--cpu-time", action="store_true", help="CPU time of all threads instead of wall-clock time")
    return parser


def seconds_of(body, arguments):
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    seconds = []
    for _ in range(arguments.rounds + 3):
        start = clock()
        body()
        seconds.append(clock() - start)
    return seconds[3:]  # the first three rounds are a warm-up, in which models are compiled


def main():
    arguments = argument_parser(__doc__).parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    torch._inductor.config.freezing = True
    encoder = fused_encoder(arguments.model)
    result = {"context": {"torch": torch.__version__, "threads": arguments.threads}}
    with torch.no_grad():
        for batch in (32, 1):
            ids = random_ids(encoder, batch)
            for dtype in ("f32", "bf16"):
                name = f"encoder/{batch}x{LENGTH}/{dtype}/pytorch"
                with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
                    result[name] = seconds_of(lambda: encoder(ids), arguments)
                    torch._dynamo.reset()
                    compiled = torch.compile(encoder)
                    result[name + "-compiled"] = seconds_of(lambda: compiled(ids), arguments)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
