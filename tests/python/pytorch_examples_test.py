"""The examples in PyTorch give the logits of foldgrad, for models written by either."""
import json
import os
import subprocess
import sys
import tempfile

from setting import PROGRAM, SOURCES, call, largest_difference, logits_of, require

require("torch")
import torch  # noqa: E402
from model_files import load_tensors, save_tensors  # noqa: E402
from pytorch_model import load_model  # noqa: E402


def example(name, *arguments):
    return call(sys.executable, os.path.join(SOURCES, "examples", name), *arguments)


def batch():
    """Sources padded on the left, targets on the right."""
    torch.manual_seed(2)
    source, target = torch.randint(4, 8, (5, 7)), torch.randint(4, 9, (5, 6))
    for row in range(5):
        source[row, :row] = 1
        target[row, 6 - row:] = 1
    target[:, 0] = 2
    return {"source": source, "input": target}


def check(what, directory, files, tolerance=1e-5):
    """The logits of foldgrad, of all positions that are not padding."""
    given, theirs = os.path.join(files, "in"), os.path.join(files, "theirs")
    save_tensors(given, batch())
    example("pytorch_model.py", directory, given, theirs)
    real = batch()["input"] != 1
    logits = logits_of(directory, **batch())[real]
    difference = largest_difference(load_tensors(theirs)["logits"][real], logits)
    print(f"{what}: largest relative difference of the logits {difference:.2e}")
    if not difference <= tolerance:
        sys.exit(f"{what}: it must be at most {tolerance}")
    return logits


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
every = 2
beam = 1
[output]
save_every = 2
"""
NORMALIZERS = ["un warmup=1 window=2", "un mode=reference warmup=1", "bn", "rbn eps=0.1", "qmbn", "mabn warmup=2",
               "mabn mode=reference", "pn_star warmup=2", "pn_star mode=reference", "pn groups=4",
               "pn mode=reference groups=2", "repbn", "prepbn", "ln", "deepnorm", "rmsnorm",
               "rmsnorm eps_place=outside partial=0.5 bias=true eps=0.1", "scalenorm", "fixnorm",
               "fixnorm length=sqrt_channels", "centernorm", "dyt", "derf", "groupnorm axes=token groups=4", "affine",
               "scale", "none"]


def runs(files):
    """A run of each normalizer that this Transformer can have, a few updates long: its best checkpoint gives the same
    logits here and there, and they are not those of another normalizer."""
    os.mkdir(os.path.join(files, "text"))
    for split in ("train", "valid"):
        for language, words in (("de", "ein zwei drei vier".split()), ("en", "one two three four five".split())):
            with open(os.path.join(files, "text", f"{split}.{language}"), "w") as file:
                for i in range(12):
                    file.write(" ".join(words[(i + j) % len(words)] for j in range(2 + i % 3)) + "\n")
    with open(config := os.path.join(files, "small.toml"), "w") as file:
        file.write(CONFIG)
    real, seen = batch()["input"] != 1, {}
    known = {norm["name"] for norm in json.loads(call(PROGRAM, "norms", "--json"))}
    missing = known - {spec.split()[0] for spec in NORMALIZERS}
    if missing != {"instancenorm"}:  # which cannot decode: it needs all tokens of a sentence
        sys.exit(f"no run of {missing}")
    for spec in NORMALIZERS:
        name, *options = spec.split()
        run = os.path.join(files, spec.replace(" ", "-"))
        sets = [f"norm.name={name}"] + [f"norm.{name}.{option}" for option in options]
        sets += ["model.pre_norm=false"] if name == "deepnorm" else []
        call(PROGRAM, "train", config, "--data-dir", files, "--out", run, *[w for s in sets for w in ("--set", s)])
        want = logits_of(run, **batch())[real]
        with torch.no_grad():
            logits = load_model(run)(batch()["source"], batch()["input"])[0][real]
        difference = largest_difference(logits, want)
        if not difference <= 1e-5:
            sys.exit(f"{spec}: the logits of a run differ by {difference:.2e}")
        for other, values in seen.items():
            if largest_difference(values, logits) < 1e-4:
                sys.exit(f"{spec} gives the logits of {other}: this compares nothing")
        seen[spec] = logits
    print(f"runs of {len(NORMALIZERS)} normalizers: the logits agree")


def errors(files):
    done = subprocess.run([sys.executable, os.path.join(SOURCES, "examples", "pytorch_model.py"), files, "in", "out"],
                          capture_output=True, text=True)
    message = f"error: {files}: no model (it has no config.json), and no run (nor checkpoints/BEST or LATEST)\n"
    if done.returncode != 1 or done.stderr != message:
        sys.exit(f"the message must be '{message}', got exit code {done.returncode}, '{done.stderr}'")


def main():
    with tempfile.TemporaryDirectory() as files:
        runs(files)
        errors(files)
    with tempfile.TemporaryDirectory() as files:
        for norm in ("un", "ln"):
            written, again, folded = (os.path.join(files, f"{norm}-{name}") for name in ("pt", "again", "folded"))
            example("pytorch_export.py", written, "--norm", norm)
            logits = check(f"{norm}, written by PyTorch", written, files)
            call(PROGRAM, "average", written, "-o", again)
            check(f"{norm}, written by foldgrad", again, files)
            lines = call(PROGRAM, "translate", written, stdin="ein zwei\n\ndrei\n").split("\n")
            if len(lines) != 4 or lines[1] != "":
                sys.exit(f"translate must give three lines, the second empty, got {lines}")
            if norm == "un":
                call(PROGRAM, "fold", written, "-o", folded)
                difference = largest_difference(check("un, folded", folded, files), logits)
                print(f"un, folded and not: largest relative difference {difference:.2e}")
                if not difference <= 1e-4:  # products of rounded weights in another order
                    sys.exit("it must be at most 1e-4")
        path = os.path.join(written, "config.json")
        with open(path) as f:
            config = json.load(f)
        config["model"]["fixnorm"] = True
        with open(path, "w") as f:
            json.dump(config, f)
        if largest_difference(check("ln, with fixnorm", written, files), logits) < 0.1:
            sys.exit("fixnorm changes nothing")


if __name__ == "__main__":
    main()
