"""The scores of `foldgrad eval` are those of sacreBLEU for the same lines."""
import json
import os
import random
import sys
import tempfile

from setting import PROGRAM, call, require

require("sacrebleu")
import sacrebleu  # noqa: E402

CONFIG = """
[data]
task = "numbers"
train_pairs = 200
valid_pairs = 3
[model]
width = 16
ffn_width = 16
heads = 2
encoder_layers = 1
decoder_layers = 1
max_positions = 128
[train]
steps = 60
max_tokens = 512
lr = 1e-2
warmup = 5
[validate]
every = 100
beam = 1
"""


def reference_of(line, rng):
    """The hypothesis with words lost, doubled, moved, and with marks that tokenizers treat specially."""
    words = line.split()
    for _ in range(rng.randrange(4)):
        if words:
            at = rng.randrange(len(words))
            words[at:at + 1] = rng.choice([[], [words[at], words[at]], [words[at] + ","], ["3.5%"], ["don't"],
                                           ["Größe"], ["(x)"], ["a-b"]])
    rng.random() < 0.3 and rng.shuffle(words)
    return " ".join(words) or "."


def main():
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as files:
        path = lambda name: os.path.join(files, name)
        with open(path("config.toml"), "w") as file:
            file.write(CONFIG)
        call(PROGRAM, "train", path("config.toml"), "--out", path("run"))
        sources = ["zwei", "am dritten Mai zweitausendzehn", "drei Komma eins vier", "neunundneunzig", "eintausend"] * 4
        translated = call(PROGRAM, "translate", path("run"), stdin="\n".join(sources) + "\n")
        references = [reference_of(line, rng) for line in translated.splitlines()]
        for name, lines in (("de", sources), ("en", references)):
            with open(path(name), "w", encoding="utf-8") as file:
                file.write("".join(line + "\n" for line in lines))
        ours = json.loads(call(PROGRAM, "eval", path("run"), "--source", path("de"), "--reference", path("en"),
                               "--hypotheses", path("hypotheses"), "--json"))
        with open(path("hypotheses"), encoding="utf-8") as file:
            hypotheses = file.read().splitlines()
    wrong = []
    for name, metric in (("sacrebleu", sacrebleu.BLEU()), ("chrf", sacrebleu.CHRF())):
        want = metric.corpus_score(hypotheses, [references]).score
        signature = "|".join(part for part in str(metric.get_signature()).split("|") if not part.startswith("version:"))
        print(f"{name}: {ours[name]} here, {want} there, {signature}")
        if not abs(ours[name] - want) <= 1e-9 or ours[f"{name}_signature"] != signature:
            wrong.append(f"{name}: must be {want} {signature}, got {ours[name]} {ours[f'{name}_signature']}")
    if wrong or not 0 < ours["sacrebleu"] < 100:
        sys.exit("\n".join(wrong) or "references must be such that scores are between 0 and 100")


if __name__ == "__main__":
    main()
