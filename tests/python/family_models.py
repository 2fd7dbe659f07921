"""Helpers of the tests of model families. The tests check that PyTorch and onnxruntime compute the same logits as
foldgrad, for trained and for folded models."""
import json
import os
import sys
import tempfile

from setting import PROGRAM, SOURCES, call, expect, largest_difference, logits_of, require

require("numpy", "onnx", "onnxruntime", "safetensors", "torch")
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
import torch  # noqa: E402
from model_files import load_tensors, save_tensors  # noqa: E402

# The tolerance is relative to 1 + |logit|. Both sides add in f32, but in different orders, which changes a sum by about
# 1e-7. An error in a formula changes logits by orders of magnitude more.
TOLERANCE = 1e-5
NORMALIZERS = ["un warmup=1 window=2", "un mode=reference warmup=1", "bn", "rbn eps=0.1", "qmbn", "mabn warmup=2",
               "pn_star warmup=2", "pn groups=4", "repbn", "ln", "prepbn", "deepnorm", "rmsnorm", "scalenorm", "fixnorm",
               "centernorm", "dyt", "derf", "groupnorm axes=token groups=4", "affine", "scale", "none"]
# All families have the same normalizers. One family of texts and one of images test all of them, most others only
# these.
SOME = ["un warmup=1 window=2", "un mode=reference warmup=1", "bn", "rbn eps=0.1", "pn groups=4", "repbn", "ln",
        "rmsnorm", "dyt", "groupnorm axes=token groups=4", "none"]
# The training settings for models that classify images.
TRAINING = """
[train]
steps = 4
batch = 8
warmup = 1
lr = 0.02
[validate]
every = 4
[output]
save_every = 4
"""


def require_same(what, got, want):
    off = largest_difference(got, want)
    expect(off <= TOLERANCE, f"{what}: the logits differ by {off:.2e}, at most {TOLERANCE} is allowed")
    return off


def onnx_session(directory):
    file = os.path.join(directory, "model.onnx")
    onnx.checker.check_model(file, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def onnx_operators(directory):
    """Returns the operators of all .onnx files in the directory."""
    files = [os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".onnx")]
    return {node.op_type for file in files for node in onnx.load(file).graph.node}


class Models:
    """Trains, folds and compares models of a family. `config` is the text of a configuration file, and load_model(path)
    returns the example's model. A subclass defines:

        write_data()   writes the training data into the directory `files`
        inputs()       returns tensors by name, as `foldgrad run` takes them
        others(model, network, session, want)
                       yields (name, logits, expected logits) for each other way to compute logits. `network` is the
                       example's model, `session` is onnxruntime's, and `want` has foldgrad's logits for the inputs
    """
    folds = [[]]  # the options of `foldgrad fold`, one list for each folded model
    session = staticmethod(onnx_session)

    def real(self, logits):
        """Returns the part of a program's logits to compare, by default all of them."""
        return logits

    def __init__(self, files, config, load_model):
        self.files, self.load_model = files, load_model
        self.write_data()
        with open(self.path("config.toml"), "w") as file:
            file.write(config)
        torch.manual_seed(1)
        self.given = self.inputs()

    def path(self, name):
        return os.path.join(self.files, name)

    def train(self, spec, kind):
        """Trains a model for a few steps and returns the directory of the run."""
        norm, *options = spec.split()
        out = self.path(spec.replace(" ", "-"))
        sets = [f"norm.name={norm}"] + [f"norm.{norm}.{o}" for o in options] + [f"model.{k}" for k in kind]
        sets += ["model.pre_norm=false"] if norm == "deepnorm" else []
        call(PROGRAM, "train", self.path("config.toml"), "--data-dir", self.files, "--out", out,
             *[word for s in sets for word in ("--set", s)])
        return out

    def compare(self, what, model):
        """Returns foldgrad's logits, their largest difference from other programs' logits, and the operators in the
        ONNX files."""
        want, network = self.real(logits_of(model, **self.given)), self.load_model(model)
        call(PROGRAM, "export", model, "--to", "onnx", "-o", model + "-onnx")
        session = self.session(model + "-onnx")
        with torch.no_grad():
            worst = require_same(f"{what}, PyTorch", self.real(network(*self.given.values())), want)
            for who, got, part in self.others(model, network, session, want):
                worst = max(worst, require_same(f"{what}, {who}", got, part))
        return want, worst, onnx_operators(model + "-onnx")


class ImageModels(Models):
    def write_data(self):
        """Writes files of eight random images each, in CIFAR-10's format."""
        os.mkdir(self.path("cifar-10-batches-bin"))
        rng = np.random.default_rng(1)
        for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
            records = rng.integers(0, 256, (8, 3073), dtype=np.uint8)
            records[:, 0] = rng.integers(0, 10, 8)
            records.tofile(self.path(os.path.join("cifar-10-batches-bin", name)))

    def inputs(self):
        return {"images": torch.randint(0, 256, (5, 32, 32, 3), dtype=torch.uint8)}

    def others(self, model, network, session, want):
        pixels = network.normalized(self.given["images"])
        yield "of normalized images", logits_of(model, images=pixels), want
        pixels = pixels.permute(0, 3, 1, 2).contiguous().numpy()
        yield "onnxruntime", torch.from_numpy(session.run(["logits"], {"pixel_values": pixels})[0]), want


def check(models, spec, kind, seen):
    run = models.train(spec, kind)
    want, worst, _ = models.compare(spec, run)
    for other, values in seen.items():
        expect(largest_difference(values, want) >= 1e-4,
               f"{spec} and {other} have the same logits, so this test compares nothing")
    seen[spec] = want
    for options in models.folds:
        what, folded = " ".join([f"{spec}, folded", *options]), run + "-folded" + "".join(options)
        call(PROGRAM, "fold", run, "-o", folded, *options)
        got, off, operators = models.compare(what, folded)
        worst = max(worst, off)
        off = largest_difference(got, want)
        expect(off <= 1e-4, f"{what}: folding changes logits by {off:.2e}")  # folding rounds products of weights
        left = operators & {"Sqrt", "Pow", "LayerNormalization", "Tanh"} if spec.startswith("un") else set()
        expect(not left, f"{what}: the model still has {left}")
    return worst


def check_all(kind_of_models, script, family, config, load_model, normalizers, kinds, more, absent=None,
              also=lambda models: None):
    """Trains and checks one model for each normalizer in `normalizers`, with the next of `kinds` in turn, and one
    for each pair (normalizer, kind) in `more`. If `absent` is given, it must name exactly the normalizers that are
    not tested. Calls also(models) at the end."""
    known = {norm["name"] for norm in json.loads(call(PROGRAM, "norms", "--json"))}
    missing = known - {spec.split()[0] for spec in normalizers}
    expect(absent is None or missing == absent, f"no run of {missing}")
    with tempfile.TemporaryDirectory() as files:
        models, seen = kind_of_models(files, config, load_model), {}
        all_of = [(spec, kinds[i % len(kinds)]) for i, spec in enumerate(normalizers)] + more
        worst = max(check(models, spec, kind, seen) for spec, kind in all_of)
        print(f"{len(all_of)} {family}, and folded ones: logits differ by at most {worst:.1e}")
        given, out = models.path("in"), models.path("out")
        save_tensors(given, models.given)
        call(sys.executable, os.path.join(SOURCES, "examples", script), models.path("ln"), given, out)
        require_same(f"{script} as a program", models.real(load_tensors(out)["logits"]), seen["ln"])
        also(models)
