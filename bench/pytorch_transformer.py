#!/usr/bin/env python3
"""Times the training steps of transformer_bench in PyTorch, with the same model, sizes, dropout and names.

    python pytorch_transformer.py [--threads 2] [--device cuda] [--seconds 10] [--filter iwslt] [--compile]

f32 runs without autocast, bf16 with autocast and f32 weights. The code is what a careful user of PyTorch would write:
one product for q, k and v (or for k and v of the memory), fused attention, and Adam in one kernel. Prints one JSON
object: name -> seconds of every step, and the setup under "context".
"""
import contextlib
import json
import math
import re

import torch
import torch.nn as nn
import torch.nn.functional as F

from pytorch_measure import begin, measure, parser

# name -> (batch, length, sizes)
TASKS = {
    "iwslt": (64, 32, dict(vocabulary=10152, width=512, ffn=1024, heads=4, layers=6, dropout=0.3)),
    "multi30k": (128, 16, dict(vocabulary=6000, width=256, ffn=512, heads=4, layers=3, dropout=0.2)),
}
ATTENTION_DROPOUT = ACTIVATION_DROPOUT = 0.1


class Attention(nn.Module):
    def __init__(self, width, heads, cross):
        super().__init__()
        self.heads, self.cross = heads, cross
        self.projections = nn.ModuleList([nn.Linear(width, width), nn.Linear(width, 2 * width)] if cross
                                         else [nn.Linear(width, 3 * width)])
        self.out = nn.Linear(width, width)

    def forward(self, x, memory, mask, causal):
        if self.cross:
            q, (k, v) = self.projections[0](x), self.projections[1](memory).chunk(2, -1)
        else:
            q, k, v = self.projections[0](x).chunk(3, -1)
        heads = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        y = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), attn_mask=mask, is_causal=causal,
                                           dropout_p=ATTENTION_DROPOUT)
        return self.out(y.transpose(1, 2).flatten(-2))


class Layer(nn.Module):
    def __init__(self, width, ffn, heads, dropout, decoder):
        super().__init__()
        self.attention = Attention(width, heads, False)
        self.cross = Attention(width, heads, True) if decoder else None
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if decoder else 2))
        self.fc1, self.fc2, self.dropout = nn.Linear(width, ffn), nn.Linear(ffn, width), dropout

    def forward(self, x, memory, mask):
        decoder = self.cross is not None
        x = x + F.dropout(self.attention(self.norms[0](x), None, None if decoder else mask, decoder), self.dropout)
        if decoder:
            x = x + F.dropout(self.cross(self.norms[2](x), memory, mask, False), self.dropout)
        hidden = F.dropout(F.relu(self.fc1(self.norms[1](x))), ACTIVATION_DROPOUT)
        return x + F.dropout(self.fc2(hidden), self.dropout)


class Transformer(nn.Module):
    """A pre-norm Transformer with one table for source, target and output."""

    def __init__(self, vocabulary, width, ffn, heads, layers, dropout):
        super().__init__()
        self.table, self.dropout = nn.Embedding(vocabulary, width), dropout
        stack = lambda decoder: nn.ModuleList(Layer(width, ffn, heads, dropout, decoder) for _ in range(layers))
        self.encoder, self.decoder = stack(False), stack(True)
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.register_buffer("positions", torch.randn(1, 1024, width))
        nn.init.normal_(self.table.weight, std=width**-0.5)

    def embed(self, ids):
        x = self.table(ids) * math.sqrt(self.table.embedding_dim) + self.positions[:, :ids.shape[1]]
        return F.dropout(x, self.dropout)

    def forward(self, source, target, mask):
        x = self.embed(source)
        for layer in self.encoder:
            x = layer(x, None, mask)
        memory = self.encoder_norm(x)
        x = self.embed(target)
        for layer in self.decoder:
            x = layer(x, memory, mask)
        return F.linear(self.decoder_norm(x), self.table.weight)


def step_of(batch, length, sizes, bf16, wrap, device="cpu"):
    if device == "cuda":
        batch *= 2  # as transformer_bench does there
    model = Transformer(**sizes).train().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)
    ids = lambda: torch.randint(4, sizes["vocabulary"], (batch, length), device=device)
    source, target, gold = ids(), ids(), ids()
    mask = torch.ones(batch, 1, 1, length, dtype=torch.bool, device=device)
    call = wrap(model)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16) if bf16 else contextlib.nullcontext():
            logits = call(source, target, mask)
        loss = F.cross_entropy(logits.float().flatten(0, 1), gold.flatten(), label_smoothing=0.1)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), math.inf)
        optimizer.step()

    return step


def main():
    options = parser(__doc__)
    options.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="(default: cpu)")
    options.add_argument("--compile", action="store_true", help="use torch.compile")
    arguments, result = begin(options)
    result["context"] |= {"compiled": arguments.compile, "device": arguments.device}
    wrap = torch.compile if arguments.compile else lambda model: model
    for task, description in TASKS.items():
        for dtype in ("f32", "bf16"):
            name = f"{task}/step/{dtype}"
            if re.search(arguments.filter, name):
                step = step_of(*description, dtype == "bf16", wrap, arguments.device)
                result[name] = measure(step, arguments.seconds, arguments.device)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
