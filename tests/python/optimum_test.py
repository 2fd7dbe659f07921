"""Hugging Face's Optimum loads what `foldgrad export` writes, and generates the ids of foldgrad's own decoding."""
import os
import random
import sys
import tempfile

from setting import PROGRAM, call, require

require("torch", "optimum.onnxruntime")
import torch  # noqa: E402
from onnxruntime_test import LIMIT, SOURCE_WORDS, TARGET_WORDS, expect_translations, randomize, translated  # noqa: E402
from optimum.onnxruntime import ORTModelForSeq2SeqLM  # noqa: E402
from pytorch_export import export, small_config  # noqa: E402
from pytorch_model import Transformer  # noqa: E402


def write_model(directory):
    torch.manual_seed(1)
    config = small_config("un", SOURCE_WORDS, TARGET_WORDS)
    config["model"]["share_embeddings"] = "none"
    network = Transformer(config)
    randomize(network)
    export(network, config, directory, SOURCE_WORDS, TARGET_WORDS)


def generated(directory, sentences, beams):
    model = ORTModelForSeq2SeqLM.from_pretrained(directory, use_cache=True)
    longest = max(map(len, sentences))
    ids = torch.tensor([[*s, 2, *[1] * (longest - len(s))] for s in sentences])
    out = model.generate(input_ids=ids, attention_mask=(ids != 1).long(), num_beams=beams, do_sample=False,
                         max_new_tokens=LIMIT, early_stopping=False)
    cut = lambda row: row[:row.index(2)] if 2 in row else row
    return [[i for i in cut(row[1:]) if i != 1] for row in out.tolist()]


def main():
    rng = random.Random(1)
    sentences = [[rng.randrange(4, 24) for _ in range(rng.randrange(1, 9))] for _ in range(60)]
    with tempfile.TemporaryDirectory() as files:
        model, folded = os.path.join(files, "model"), os.path.join(files, "folded")
        write_model(model)
        call(PROGRAM, "fold", model, "-o", folded, "--untie")
        for name in (model, folded):
            call(PROGRAM, "export", name, "--to", "onnx", "-o", name + "-onnx")
            expect_translations(os.path.basename(name), sentences, translated(name, sentences),
                                generated(name + "-onnx", sentences, beams=1))
        if not all(generated(folded + "-onnx", sentences[:3], beams=5)):
            sys.exit("beam search must give translations")


if __name__ == "__main__":
    main()
