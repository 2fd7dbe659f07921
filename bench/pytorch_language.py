#!/usr/bin/env python3
"""Times the work of language_bench in PyTorch, with the same model, sizes and names, and with layer normalization.

    python pytorch_language.py [--threads 2] [--seconds 10] [--filter step] [--compile]

f32 runs without autocast. bf16 is autocast with f32 weights in training, and bf16 weights when writing. The code is
what a careful user of PyTorch would write: fused attention, AdamW in one kernel, and for each layer a tensor of keys
and values that the steps fill. Prints one JSON object: name -> seconds of every step, and the setup under "context".
"""
import json
import math
import re

import torch
import torch.nn as nn
import torch.nn.functional as F

from pytorch_measure import begin, measure, parser
from pytorch_vision import autocast

VOCABULARY, CONTEXT, BATCH = 65, 256, 64


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, cache=None, place=0):
        """Runs the block. `cache` [2, B, heads, CONTEXT, width / heads] has the keys and values of `place` tokens."""
        q, k, v = self.c_attn(self.ln_1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if cache is not None:
            end = place + x.shape[1]
            cache[0, :, :, place:end], cache[1, :, :, place:end] = k, v
            k, v = cache[:, :, :, :end]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=x.shape[1] > 1,
                                           dropout_p=self.dropout if self.training else 0)
        x = x + F.dropout(self.c_proj(y.transpose(1, 2).flatten(-2)), self.dropout, self.training)
        return x + F.dropout(self.c_out(F.gelu(self.c_fc(self.ln_2(x)))), self.dropout, self.training)


class Gpt(nn.Module):
    """nanoGPT's character-level model."""

    def __init__(self, dropout, width=384, heads=6, layers=6, vocabulary=VOCABULARY, context=CONTEXT):
        super().__init__()
        self.dropout = dropout
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, ids, caches=None, place=0):
        places = torch.arange(place, place + ids.shape[1])
        x = F.dropout(self.wte(ids) + self.wpe(places), self.dropout, self.training)
        for i, block in enumerate(self.h):
            x = block(x, None if caches is None else caches[i], place)
        return self.lm_head(self.ln_f(x))


def step_of(dropout, bf16, compiled):
    model = Gpt(dropout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05, fused=True)
    ids = torch.randint(0, VOCABULARY, (BATCH, CONTEXT))
    call = torch.compile(model) if compiled else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        with autocast(bf16):
            logits = call(ids)
        F.cross_entropy(logits.float().flatten(0, 1), ids.flatten(), label_smoothing=0.1).backward()
        nn.utils.clip_grad_norm_(model.parameters(), math.inf)
        optimizer.step()

    return step


def writing_of(texts, bf16, compiled):
    model = Gpt(0).eval()
    if bf16:
        model = model.bfloat16()
    call = torch.compile(model) if compiled else model
    shape = (2, texts, model.h[0].heads, CONTEXT, 384 // model.h[0].heads)
    caches = [torch.empty(shape, dtype=model.wte.weight.dtype) for _ in model.h]

    def write():
        ids = torch.zeros(texts, 1, dtype=torch.long)
        with torch.inference_mode():
            for place in range(CONTEXT - 1):
                p = (call(ids, caches, place)[:, -1].float() / 0.8).softmax(-1)
                ids = torch.multinomial(p, 1)

    return write


def main():
    options = parser(__doc__)
    options.add_argument("--compile", action="store_true", help="use torch.compile")
    arguments, result = begin(options)
    result["context"]["compiled"] = arguments.compile
    for dtype in ("f32", "bf16"):
        timed = {f"step/{dropout:g}/{dtype}": (step_of, dropout) for dropout in (0, 0.2)}
        timed |= {f"write/{texts}/{dtype}": (writing_of, texts) for texts in (1, 32)}
        for name, (make, what) in timed.items():
            if re.search(arguments.filter, name):
                result[name] = measure(make(what, dtype == "bf16", arguments.compile), arguments.seconds)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
