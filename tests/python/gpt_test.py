"""Checks that PyTorch, onnxruntime and foldgrad compute equal logits for trained and folded decoder-only
Transformers."""
import random

from family_models import SOME, Models, check_all
from pytorch_gpt import load_model

import numpy as np
import torch

CONFIG = """
[model]
family = "gpt"
width = 16
ffn_width = 24
heads = 4
layers = 2
context = 16
dropout = 0
[data]
task = "language"
[train]
steps = 40
batch = 8
warmup = 1
lr = 0.02
[validate]
every = 40
[output]
save_every = 40
"""
WORDS = "one two three four five six".split()
# Normalizers take these kinds in turn, so each kind is tested with several normalizers.
KINDS = [[], ["tied=false"], ["positions=sinusoidal", "pre_norm=false"], ["pre_norm=false", "activation=relu"],
         ["positions=sinusoidal", "activation=gelu_tanh"], ["positions=sinusoidal", "pre_norm=false", "tied=false"]]
LLAMA = ["positions=rotary", "rotary_theta=100", "gated=true", "bias=false", "activation=silu", "tied=false",
         "scaled_embedding=true"]
MORE = [("un warmup=1 window=3", ["pre_norm=false"]), ("ln eps=0.01", ["tied=false"]), ("rmsnorm eps=1e-5", LLAMA),
        ("dyt bias=false attention_alpha=1.0", LLAMA), ("un warmup=1 window=4", LLAMA)]
CHARACTERS = 1 + len({*"".join(WORDS), " ", "\n"})  # id 0 stands for any other character


def write_text(path):
    """Writes and returns a text in which each word partly determines the next."""
    rng, at, text = random.Random(1), 0, ""
    for _ in range(1000):
        at = (at + rng.choice([1, 1, 2, 3])) % len(WORDS)
        text += WORDS[at] + rng.choice("   \n")
    with open(path, "w") as file:
        file.write(text)
    return text


def logits_in_parts(session, ids, mask, part):
    """Returns the logits of all ids. Each run gets the next `part` ids, and the keys and values of all earlier ids."""
    past = {given.name: np.zeros((len(ids), given.shape[1], 0, given.shape[3]), np.float32)
            for given in session.get_inputs() if given.name.startswith("past_key_values.")}
    parts, places = [], (mask.cumsum(1) - 1).clamp(min=0)
    for end in range(part, ids.shape[1] + 1, part):
        given = {"input_ids": ids[:, end - part:end].numpy(), "attention_mask": mask[:, :end].numpy(),
                 "position_ids": places[:, end - part:end].numpy(), **past}
        logits, *present = session.run(None, given)
        past = dict(zip(past, present))
        parts.append(torch.from_numpy(logits))
    return torch.cat(parts, 1)


class Gpts(Models):
    folds = [["--untie"], ["--keep-tied"]]

    def write_data(self):
        write_text(self.path("text.txt"))

    def inputs(self):
        return {"ids": torch.randint(0, CHARACTERS, (5, 16))}

    def others(self, model, network, session, want):
        ids = self.given["ids"]
        real = torch.ones_like(ids).triu()  # row r begins with r tokens of padding
        moved = torch.stack([row.roll(places) for places, row in enumerate(ids)])
        for part in (16, 4, 1):
            yield f"onnxruntime, by {part}", logits_in_parts(session, ids, torch.ones_like(ids), part), want
            got = logits_in_parts(session, moved, real, part)
            yield f"onnxruntime, padded, by {part}", got[real.bool()], want[real.flip(1).bool()]


if __name__ == "__main__":
    check_all(Gpts, "pytorch_gpt.py", "decoder-only Transformers", CONFIG, load_model,
              [*SOME, "deepnorm", "deepnorm encoder_layers=40"], KINDS, MORE)
