"""Runs the commands of README.md, docs/tutorial.md and docs/class.md in order, with options that make them quick.

Lines that are indented by four spaces are commands. One shell runs all commands of a document except those in NOT_RUN,
in a directory that looks like the source tree, on data made here. (The tutorial's shell also runs docs/class.md.) The
options of SMALL make commands quick; nothing else about the commands changes. A stand-in for scripts/build.sh only
prints the path of the program, which has already been built.
"""
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

PROGRAM, SOURCES = os.environ["FOLDGRAD_PROGRAM"], os.environ["FOLDGRAD_SOURCE_DIR"]

NOT_RUN = {
    "scripts/test.sh": "runs this test",
    "$F data fetch multi30k": "needs a network; its data is made here, and other tests fetch from their own server",
}
TINY = ("--set model.width=16 --set model.ffn_width=16 --set model.heads=2 --set model.encoder_layers=1 "
        "--set model.decoder_layers=1 --set train.steps=5 --set train.max_tokens=512 --set output.save_every=1 ")
FEW = "--set train.steps=2 --set train.warmup=1 --set data.valid_pairs=5"
SMALL = {
    "scripts/demo.sh": "--steps 10",
    "scripts/demo.sh --task shapes":
        "--set train.steps=3 --set train.warmup=1 --set data.train_images=300 --set data.valid_images=50 "
        "--set model.width=16",
    "scripts/demo.sh --task language":
        "--set train.steps=3 --set train.warmup=1 --set model.width=16 --set model.layers=1 --set validate.every=2",
    "$F train configs/multi30k-un.toml --out runs/multi30k-un": TINY + "--set data.vocabulary=30",
    "$F train configs/numbers-un.toml --out runs/un $TINY --set norm.un.warmup=150": FEW,
    "$F train configs/numbers-un.toml --out runs/ln $TINY --set norm.name=ln": FEW,
    "$F train configs/iwslt14-cpu-un.toml --out runs/iwslt14-un": TINY + "--set validate.max_length_b=20",
    "$F eval averaged --data-dir ~/.cache/foldgrad --source iwslt14/test.de --reference iwslt14/test.en":
        "--max-length-b 20",
    "$F eval runs/multi30k-un --split test --beam 1": "--max-length-b 20",
}
# The files that each document's commands must create.
MADE = {"README.md": ["runs/demo/report.html", "runs/demo/folded/certificate.json", "runs/multi30k-un/report.html",
                      "runs/demo-shapes/report.html", "runs/demo-language/folded/model.safetensors",
                      "averaged/model.safetensors", "folded/certificate.json", "before-and-after.svg"],
        "docs/tutorial.md": ["runs/report.html", "runs/un/folded/certificate.json", "runs/ln/folded/certificate.json",
                             "runs/un/before-and-after.svg", "runs/un/class/certificate.json",
                             "runs/ln/class/certificate.json", "runs/un/class.svg"]}
# Logs that must have at least ten events of each kind, so that the report has curves.
FULL = {"README.md": ["runs/demo/log.jsonl"], "docs/tutorial.md": []}
# Patterns that must be in the output of each document's commands: the demo's commands, eight translations, the number
# of translations that folding kept, and more.
PRINTED = {"README.md": [r"^\$ foldgrad train runs/demo/demo.toml --out runs/demo ",
                         r"^exact match +\d",
                         r"^Unseen numbers, translated by greedy decoding:\n(  \S.*\n    .*\n){8}",
                         r"^largest logit difference in f64: \S+ \(\S+ relative to the largest logit\)\n",
                         r"^\d+ of 1000 translations equal those of the unfolded model\.\n",
                         r"^passed +folded",
                         r"^\$ foldgrad train configs/shapes-cct-un\.toml --out runs/demo-shapes ",
                         r"^\$ foldgrad report runs/demo-shapes$",
                         r"^\$ foldgrad generate runs/demo-language/folded --prompt The\\  --length 600$",
                         r"^Open runs/demo/report\.html in a browser to see "],
           "docs/tutorial.md": []}


def commands(document):
    with open(os.path.join(SOURCES, document), encoding="utf-8") as file:
        text = re.sub(r"^```.*?^```", "", file.read(), flags=re.M | re.S)  # drops output and code
    return [line[4:].split("  #")[0].rstrip() for line in text.splitlines() if line.startswith("    ")]


def make_text(directory, parts):
    """Writes 60 pairs of lines of number words for each part, as PART.de and PART.en. Returns the words of both
    languages."""
    os.makedirs(directory)
    rng = random.Random(1)
    german, english = "null eins zwei drei vier fünf sechs".split(), "zero one two three four five six".split()
    for part in parts:
        sides = {"de": [], "en": []}
        for _ in range(60):
            numbers = [rng.randrange(7) for _ in range(rng.randrange(1, 6))]
            sides["de"].append(" ".join(german[n] for n in numbers))
            sides["en"].append(" ".join(english[n] for n in numbers))
        for language, lines in sides.items():
            with open(os.path.join(directory, f"{part}.{language}"), "w", encoding="utf-8") as file:
                file.writelines(line + "\n" for line in lines)
    return german, english


def make_data(root):
    make_text(os.path.join(root, "multi30k"), ["train", "valid", "test_2016_flickr"])
    iwslt = os.path.join(root, "iwslt14")
    words = make_text(iwslt, ["train", "valid", "test"])
    with open(os.path.join(iwslt, "fairseq.bpe10k.code"), "w", encoding="utf-8") as file:
        file.write("#version: 0.2\ne i\nei n\n")
    for language, side in zip(("de", "en"), words):
        pieces = sorted({letter + end for word in side for letter in word for end in ("", "@@")})
        with open(os.path.join(iwslt, f"fairseq.dict.{language}.txt"), "w", encoding="utf-8") as file:
            file.writelines(f"{piece} 1\n" for piece in pieces)


def make_tree(directory):
    """Creates the part of the source tree that the commands need, and the data."""
    for name in ("configs", "docs", "tests"):
        os.symlink(os.path.join(SOURCES, name), os.path.join(directory, name))
    os.makedirs(os.path.join(directory, "scripts"))
    shutil.copy(os.path.join(SOURCES, "scripts/demo.sh"), os.path.join(directory, "scripts/demo.sh"))
    with open(os.path.join(directory, "scripts/build.sh"), "w") as file:
        file.write("#!/bin/sh\necho build/release/foldgrad\n")
    os.chmod(file.name, 0o755)
    os.makedirs(os.path.join(directory, "build/release"))
    os.symlink(PROGRAM, os.path.join(directory, "build/release/foldgrad"))
    make_data(os.path.join(directory, ".cache/foldgrad"))


def run(document, lines, directory):
    make_tree(directory)
    environment = {**os.environ, "HOME": directory, "OMP_NUM_THREADS": "1"}
    for name in ("FOLDGRAD_DATA", "XDG_CACHE_HOME"):
        environment.pop(name, None)
    script = ["set -e -o pipefail"]
    for line in lines:
        script += [f"echo {shlex.quote(line)} >> done", f"{line} {SMALL.get(line, '')}"]
    result = subprocess.run(["bash", "-c", "\n".join(script)], cwd=directory, env=environment, capture_output=True,
                            text=True)
    with open(os.path.join(directory, "done"), encoding="utf-8") as file:
        last = file.read().splitlines()[-1]
    if result.returncode:
        sys.exit(f"{document}: {last}: exit code {result.returncode}\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    missing = [name for name in MADE[document] if not os.path.exists(os.path.join(directory, name))]
    if missing:
        sys.exit(f"the commands of {document} made no {missing}")
    for log in FULL[document]:
        with open(os.path.join(directory, log), encoding="utf-8") as file:
            events = [json.loads(line)["event"] for line in file]
        few = [kind for kind in ("train", "validate", "layers") if events.count(kind) < 10]
        if few:
            sys.exit(f"{log} of {document} has fewer than ten events {few}, too few for curves")
    printed = result.stdout + result.stderr
    unprinted = [pattern for pattern in PRINTED[document] if not re.search(pattern, printed, re.M)]
    if unprinted:
        sys.exit(f"the commands of {document} printed nothing like {unprinted}:\n{printed[:3000]}")
    print(f"{len(lines)} commands of {document} ran")


def main():
    listed = {document: commands(document) for document in MADE}
    listed["docs/tutorial.md"] += commands("docs/class.md")  # uses the tutorial's runs
    for line in [*NOT_RUN, *SMALL]:
        if not any(line in lines for lines in listed.values()):
            sys.exit(f"no document has the command any more: {line}")
    for document, lines in listed.items():
        with tempfile.TemporaryDirectory() as directory:
            run(document, [line for line in lines if line not in NOT_RUN], directory)


if __name__ == "__main__":
    main()
