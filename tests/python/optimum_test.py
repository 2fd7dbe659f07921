"""Checks that Hugging Face's Optimum loads the files of `foldgrad export` and generates the same tokens as foldgrad."""
import json
import os
import random
import tempfile

from setting import PROGRAM, call, expect, require

require("safetensors", "torch", "optimum.onnxruntime")
import torch  # noqa: E402
from gpt_test import CONFIG, write_text  # noqa: E402
from model_files import load_config  # noqa: E402
from onnxruntime_test import (LIMIT, SOURCE_WORDS, TARGET_WORDS, expect_translations, expect_variety,  # noqa: E402
                              randomize, translated)
from optimum.onnxruntime import ORTModelForCausalLM, ORTModelForSeq2SeqLM  # noqa: E402
from pytorch_export import export, small_config  # noqa: E402
from pytorch_model import Transformer  # noqa: E402


def generated(directory, sentences, beams):
    model = ORTModelForSeq2SeqLM.from_pretrained(directory, use_cache=True)
    longest = max(map(len, sentences))
    ids = torch.tensor([[*s, 2, *[1] * (longest - len(s))] for s in sentences])
    out = model.generate(input_ids=ids, attention_mask=(ids != 1).long(), num_beams=beams, do_sample=False,
                         max_new_tokens=LIMIT, early_stopping=False)
    cut = lambda row: row[:row.index(2)] if 2 in row else row
    return [[i for i in cut(row[1:]) if i != 1] for row in out.tolist()]


def translations():
    rng = random.Random(1)
    sentences = [[rng.randrange(4, 24) for _ in range(rng.randrange(1, 9))] for _ in range(60)]
    with tempfile.TemporaryDirectory() as files:
        model, folded = os.path.join(files, "model"), os.path.join(files, "folded")
        torch.manual_seed(1)
        config = small_config("un", SOURCE_WORDS, TARGET_WORDS)
        config["model"]["share_embeddings"] = "none"
        network = Transformer(config)
        randomize(network)
        export(network, config, model, SOURCE_WORDS, TARGET_WORDS)
        call(PROGRAM, "fold", model, "-o", folded, "--untie")
        for name in (model, folded):
            call(PROGRAM, "export", name, "--to", "onnx", "-o", name + "-onnx")
            expect_translations(os.path.basename(name), sentences, translated(name, sentences),
                                generated(name + "-onnx", sentences, beams=1))
        expect(all(generated(folded + "-onnx", sentences[:3], beams=5)), "beam search must give translations")


def continuations(exported, characters, prompts):
    """Pads a batch of prompts on the left and returns their continuations. These end at the maximum length, which
    Optimum reads from generation_config.json."""
    model = ORTModelForCausalLM.from_pretrained(exported)
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(p)) + [1 + characters.index(c) for c in p] for p in prompts])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
    out = model.generate(input_ids=ids, attention_mask=mask, do_sample=False)[:, longest:]
    return ["".join(("\N{REPLACEMENT CHARACTER}" + characters)[i] for i in row) for row in out.tolist()]


def expect_continuations(model, characters, prompts, count):
    call(PROGRAM, "export", model, "--to", "onnx", "-o", model + "-onnx")
    got, what = continuations(model + "-onnx", characters, prompts), os.path.basename(model)
    for prompt, theirs in zip(prompts, got, strict=True):
        ours = call(PROGRAM, "generate", model, "--prompt", prompt, "--temperature", "0", "--length", str(count))
        expect(ours == prompt + theirs + "\n", f"{what}: {prompt!r}\n  foldgrad  {ours!r}\n  there     {theirs!r}")
    expect_variety(what, "continuations", got, 10)


def texts():
    """Checks that Optimum and foldgrad continue prompts from the text alike, for a trained model and for its folded
    model."""
    with tempfile.TemporaryDirectory() as files:
        gpt, folded, config = (os.path.join(files, name) for name in ("gpt", "gpt-folded", "config.toml"))
        text = write_text(os.path.join(files, "text.txt"))
        with open(config, "w") as file:
            file.write(CONFIG)
        # A context of 32 leaves 26 tokens after a prompt, more than the 20 that Transformers generates by default.
        sets = ["norm.name=un", "norm.un.warmup=10", "model.context=32"]
        call(PROGRAM, "train", config, "--data-dir", files, "--out", gpt, *[w for s in sets for w in ("--set", s)])
        call(PROGRAM, "fold", gpt, "-o", folded, "--untie")
        with open(os.path.join(folded, "vocabulary", "vocabulary.json")) as file:
            characters = json.load(file)["characters"]
        longest = 6
        prompts = [text[13 * i:13 * i + 1 + i % longest] for i in range(60)]
        count = load_config(folded, "gpt")["model"]["context"] - longest
        for model in (gpt, folded):
            expect_continuations(model, characters, prompts, count)


if __name__ == "__main__":
    translations()
    texts()
