"""Hugging Face's Optimum loads what `foldgrad export` writes, and generates the ids of foldgrad's own decoding."""
import os
import random
import sys
import tempfile

from setting import PROGRAM, call, require

require("torch", "optimum.onnxruntime")
import torch  # noqa: E402
from optimum.onnxruntime import ORTModelForSeq2SeqLM  # noqa: E402
from normalizers import Offline  # noqa: E402
from pytorch_export import export, small_config  # noqa: E402
from pytorch_model import Transformer  # noqa: E402

SOURCE_WORDS, TARGET_WORDS = [f"s{i}" for i in range(20)], [f"t{i}" for i in range(28)]
LIMIT = 12


def write_model(directory):
    """Weights such that translations depend on the source."""
    torch.manual_seed(1)
    config = small_config("un", SOURCE_WORDS, TARGET_WORDS)
    config["model"]["share_embeddings"] = "none"
    network = Transformer(config)
    with torch.no_grad():
        for name, p in network.named_parameters():
            p.copy_((0.6 if "encoder_attn" in name else 0.25) * torch.randn_like(p) + name.endswith("norm.weight"))
        for module in network.modules():
            if isinstance(module, Offline):
                module.run_var.copy_(2 + 4 * torch.rand_like(module.run_var))
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
    sentences = [[rng.randrange(4, 24) for _ in range(rng.randrange(1, 9))] for _ in range(30)]
    lines = "".join(" ".join(SOURCE_WORDS[i - 4] for i in s) + "\n" for s in sentences)
    word = lambda i: "<unk>" if i == 3 else TARGET_WORDS[i - 4]
    with tempfile.TemporaryDirectory() as files:
        model, folded = os.path.join(files, "model"), os.path.join(files, "folded")
        write_model(model)
        call(PROGRAM, "fold", model, "-o", folded, "--untie")
        for name in (model, folded):
            call(PROGRAM, "export", name, "--to", "onnx", "-o", name + "-onnx")
            want = call(PROGRAM, "translate", name, "--beam", "1", "--max-length-a", "0", "--max-length-b", str(LIMIT),
                        stdin=lines).splitlines()
            got = [" ".join(word(i) for i in ids if i != 0) for ids in generated(name + "-onnx", sentences, beams=1)]
            for line, ours, theirs in zip(lines.splitlines(), want, got, strict=True):
                if ours != theirs:
                    sys.exit(f"{name}: {line}\n  foldgrad  {ours}\n  Optimum   {theirs}")
            if len(set(want)) < 10:
                sys.exit(f"translations must differ, to tell something, got {len(set(want))} of {len(want)}")
            print(f"{os.path.basename(name)}: {len(want)} translations are the same, {len(set(want))} different ones")
        if not all(generated(folded + "-onnx", sentences[:3], beams=5)):
            sys.exit("beam search must give translations")


if __name__ == "__main__":
    main()
