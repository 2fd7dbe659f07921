"""Checks that onnxruntime computes the same logits and greedy translations as foldgrad from exported models."""
import os
import tempfile

from setting import PROGRAM, call, expect, logits_of, require

require("numpy", "onnx", "onnxruntime", "safetensors", "torch")
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import torch  # noqa: E402
from onnx_greedy import Translator  # noqa: E402
from pytorch_export import export  # noqa: E402
from normalizers import Offline  # noqa: E402
from pytorch_model import Transformer  # noqa: E402

# Both sides add in f32, in different orders. After two layers, the logits differ by about 1e-6 of the largest logit;
# with post-norm, by 2e-6. An error in a formula changes them by orders of magnitude more.
TOLERANCE = 5e-6
SOURCE_WORDS, TARGET_WORDS = [f"wort{i}" for i in range(20)], [f"word{i}" for i in range(28)]
LIMIT = 16  # the maximum length of a translation
PAIRS = [(batch, length) for batch in (1, 2, 3, 5, 8) for length in (1, 2, 5, 9, 13)]


def randomize(network):
    """Sets random weights, scaled so that translations depend on the source."""
    with torch.no_grad():
        for name, p in network.named_parameters():
            p.copy_((0.6 if "encoder_attn" in name else 0.25) * torch.randn_like(p) + name.endswith("norm.weight"))
        for module in network.modules():
            if isinstance(module, Offline):
                module.run_var.copy_(2 + 4 * torch.rand_like(module.run_var))  # about the mean square of x


class Files:
    """Models, each in a directory named after the model."""

    def __init__(self, directory):
        self.directory = directory

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, norm, **model):
        """Writes a model with random weights."""
        config = {"model": {"source_vocabulary": 24, "target_vocabulary": 32, "width": 16, "ffn_width": 24, "heads": 4,
                            "encoder_layers": 2, "decoder_layers": 2, "max_positions": 24, "pad": 1, "pre_norm": True,
                            "activation": "relu", "share_embeddings": "none", **model},
                  "norm": {"name": norm, "options": {}}}
        torch.manual_seed(1)
        network = Transformer(config)
        randomize(network)
        export(network, config, self.path(name), SOURCE_WORDS, TARGET_WORDS)

    def onnx(self, name):
        out = self.path(name + "-onnx")
        call(PROGRAM, "export", self.path(name), "--to", "onnx", "-o", out)
        return checked_translator(out)


def checked_translator(directory):
    for part in ("encoder", "decoder", "decoder_with_past"):
        onnx.checker.check_model(os.path.join(directory, part + "_model.onnx"), full_check=True)
    return Translator(directory, threads=1)


def onnx_logits(translator, batch, cached):
    """Returns the logits at every position of the prefix. With `cached`, runs the decoder once for each token,
    otherwise once for the whole prefix."""
    source, prefix = batch["source"], batch["input"]
    mask = (source != 1).astype(np.int64)
    (states,) = translator.encoder.run(None, {"input_ids": source, "attention_mask": mask})
    encoded = {"encoder_hidden_states": states, "encoder_attention_mask": mask}
    if not cached:
        return translator.decoder.run(["logits"], {"input_ids": prefix, **encoded})[0]
    past = {}
    return np.stack([translator.step(prefix[:, :t + 1], encoded, past) for t in range(prefix.shape[1])], 1)


def check_padding(files, name, translator):
    """Compares logits for a batch in which one source is padded on both sides and one consists only of padding."""
    rng = np.random.default_rng(1)
    source, prefix = rng.integers(4, 24, (3, 7)), rng.integers(4, 32, (3, 5))
    source[0, :2] = source[0, 5:] = source[2] = 1
    want = logits_of(files.path(name), source=torch.from_numpy(source), input=torch.from_numpy(prefix)).numpy()
    for cached in (False, True):
        got = onnx_logits(translator, {"source": source, "input": prefix}, cached)
        difference = np.abs(got - want).max() / np.abs(want).max()
        expect(difference <= TOLERANCE,
               f"{name}, {'with' if cached else 'without'} past: logits differ by {difference:.2e} of the greatest, at "
               f"most {TOLERANCE} is allowed")


def translated(model, sentences):
    """Returns greedy translations. Sentences are lists of ids without the end token."""
    lines = "".join(" ".join(SOURCE_WORDS[i - 4] for i in sentence) + "\n" for sentence in sentences)
    return call(PROGRAM, "translate", model, "--beam", "1", "--max-length-a", "0", "--max-length-b", str(LIMIT),
                stdin=lines).splitlines()


def expect_translations(what, sentences, want, got):
    """Checks that foldgrad's translations `want` equal those of another program, whose ids are `got`."""
    for sentence, ours, ids in zip(sentences, want, got, strict=True):
        theirs = " ".join("<unk>" if i == 3 else TARGET_WORDS[i - 4] for i in ids if i != 0)
        expect(ours == theirs, f"{what}: {sentence}\n  foldgrad  {ours}\n  there     {theirs}")
    expect_variety(what, "translations", want, 15)


def expect_variety(what, kind, texts, least):
    different = len(set(texts))
    expect(different >= least,
           f"{what}: at least {least} {kind} must differ, got {different} different ones of {len(texts)}")
    print(f"{what}: {len(texts)} {kind} are the same, {different} different ones")


def check_translations(files, name, translator):
    rng = np.random.default_rng(2)
    batches = [[rng.integers(4, 24, rng.integers(1, length + 1) if row else length).tolist() for row in range(batch)]
               for batch, length in PAIRS]
    sentences = [sentence for batch in batches for sentence in batch]
    want = translated(files.path(name), sentences)
    for cached in (False, True):
        got = [ids for batch in batches for ids in translator.translate(batch, LIMIT, cached)]
        expect_translations(f"{name}, {'with' if cached else 'without'} past", sentences, want, got)


def main():
    with tempfile.TemporaryDirectory() as directory:
        files = Files(directory)
        files.write("un", "un")
        call(PROGRAM, "fold", files.path("un"), "-o", files.path("un-folded"), "--untie")
        files.write("un-post", "un", pre_norm=False, activation="gelu")
        call(PROGRAM, "fold", files.path("un-post"), "-o", files.path("un-post-folded"))
        files.write("ln-post", "ln", pre_norm=False, output_bias=True, activation="gelu_tanh")
        for name in ("un-folded", "un-post-folded", "ln-post"):
            translator = files.onnx(name)
            check_padding(files, name, translator)
            if name != "un-post-folded":  # it has too few different translations
                check_translations(files, name, translator)


if __name__ == "__main__":
    main()
