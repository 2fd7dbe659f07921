"""Checks that PyTorch, onnxruntime and foldgrad compute equal logits for translation Transformers that foldgrad
trained or PyTorch wrote, and for their folded models."""
import os
import subprocess
import sys

from family_models import NORMALIZERS, Models, check_all, require_same
from onnxruntime_test import checked_translator, onnx_logits
from pytorch_model import load_model
from setting import PROGRAM, SOURCES, call, change_config, expect, largest_difference, logits_of

import torch

CONFIG = """
[model]
width = 16
ffn_width = 32
heads = 4
encoder_layers = 1
decoder_layers = 1
share_embeddings = "decoder"
dropout = 0
[data]
directory = "text"
[train]
steps = 4
warmup = 1
lr = 0.05
[validate]
every = 4
beam = 1
[output]
save_every = 4
"""
# Normalizers take these kinds in turn, so each kind is tested with several normalizers.
KINDS = [[], ["share_embeddings=none", "activation=sigmoid"], ["activation=gelu_tanh"],
         ["share_embeddings=none", "activation=tanh"], ["activation=silu"]]
MORE = [("ln eps=1e-4", ["pre_norm=false"])]
MORE += [(spec, []) for spec in ("un warmup=1 window=3", "mabn mode=reference", "pn_star mode=reference",
                                 "pn mode=reference groups=2", "fixnorm length=sqrt_channels",
                                 "rmsnorm eps_place=outside partial=0.5 bias=true eps=0.1")]


class Transformers(Models):
    session = staticmethod(checked_translator)

    def write_data(self):
        os.mkdir(self.path("text"))
        for split in ("train", "valid"):
            for language, words in (("de", "ein zwei drei vier".split()), ("en", "one two three four five".split())):
                with open(self.path(f"text/{split}.{language}"), "w") as file:
                    for i in range(12):
                        file.write(" ".join(words[(i + j) % len(words)] for j in range(2 + i % 3)) + "\n")

    def inputs(self):
        """Returns sources padded on the left and targets padded on the right."""
        source, target = torch.randint(4, 8, (5, 7)), torch.randint(4, 9, (5, 6))
        for row in range(5):
            source[row, :row] = 1
            target[row, 6 - row:] = 1
        target[:, 0] = 2
        return {"source": source, "input": target}

    def real(self, logits):
        return (logits[0] if isinstance(logits, tuple) else logits)[self.given["input"] != 1]

    def others(self, model, network, session, want):
        batch = {name: tensor.numpy() for name, tensor in self.given.items()}
        for cached in (False, True):
            got = torch.from_numpy(onnx_logits(session, batch, cached))
            yield f"onnxruntime {'with' if cached else 'without'} past", self.real(got), want


def example(name):
    return os.path.join(SOURCES, "examples", name)


def written_by_pytorch(models):
    for norm in ("un", "ln"):
        written, again, folded = (models.path(f"{norm}-{name}") for name in ("pt", "again", "pt-folded"))
        call(sys.executable, example("pytorch_export.py"), written, "--norm", norm)
        logits, *_ = models.compare(f"{norm}, written by PyTorch", written)
        call(PROGRAM, "average", written, "-o", again)
        require_same(f"{norm}, written by foldgrad", models.compare("copied by foldgrad", again)[0], logits)
        lines = call(PROGRAM, "translate", written, stdin="ein zwei\n\ndrei\n").split("\n")
        expect(len(lines) == 4 and lines[1] == "", f"translate must give three lines, the second empty, got {lines}")
        if norm == "un":
            call(PROGRAM, "fold", written, "-o", folded)
            off = largest_difference(models.compare("un, folded", folded)[0], logits)
            expect(off <= 1e-4, f"un, folded: differs by {off:.2e}")  # folding rounds products of weights
    change_config(written, lambda config: config["model"].update(fixnorm=True))
    expect(largest_difference(models.compare("ln, with fixnorm", written)[0], logits) > 0.1,
           "fixnorm must change the logits")
    with torch.no_grad():
        off = largest_difference(models.real(load_model(written, torch.float64)(*models.given.values())),
                                 models.real(logits_of(written, "--dtype", "f64", **models.given)))
    expect(off <= 1e-12, f"ln, with fixnorm, in float64: differs by {off:.2e}")

    done = subprocess.run([sys.executable, example("pytorch_model.py"), models.files, "in", "out"], capture_output=True,
                          text=True)
    message = f"error: {models.files}: neither a model (no config.json) nor a run (no checkpoints/BEST or LATEST)\n"
    expect(done.returncode == 1 and done.stderr == message,
           f"the message must be '{message}', got exit code {done.returncode}, '{done.stderr}'")


if __name__ == "__main__":
    check_all(Transformers, "pytorch_model.py", "Transformers", CONFIG, load_model, NORMALIZERS, KINDS, MORE,
              absent={"instancenorm"},  # it needs all tokens of a sentence, so it cannot decode
              also=written_by_pytorch)
