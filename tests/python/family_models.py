"""The common part of tests of families of models: PyTorch and onnxruntime give the logits of foldgrad for its trained
and folded models."""
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

# Relative to 1 + |logit|: both sides round sums of f32 in different orders, some 1e-7 each. Errors in a formula are
# larger by orders of magnitude.
TOLERANCE = 1e-5
NORMALIZERS = ["un warmup=1 window=2", "un mode=reference warmup=1", "bn", "rbn eps=0.1", "qmbn", "mabn warmup=2",
               "pn_star warmup=2", "pn groups=4", "repbn", "ln", "prepbn", "deepnorm", "rmsnorm", "scalenorm", "fixnorm",
               "centernorm", "dyt", "derf", "groupnorm axes=token groups=4", "affine", "scale", "none"]
# Families of text and of images have the same normalizers: one of each runs all of them, the other some.
SOME = ["un warmup=1 window=2", "un mode=reference warmup=1", "bn", "rbn eps=0.1", "pn groups=4", "repbn", "ln",
        "rmsnorm", "dyt", "groupnorm axes=token groups=4", "none"]
# For models that classify images.
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
    """Returns the operators of all its .onnx files."""
    files = [os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".onnx")]
    return {node.op_type for file in files for node in onnx.load(file).graph.node}


class Models:
    """The models of a family: `config` is the text of a configuration, load_model(path) the example's model. Its own:

        write_data()   writes what is trained on into the directory `files`
        inputs()       returns tensors by name, as `foldgrad run` takes them
        others(model, network, session, want)
                       yields (who, logits, what they must be) of all else that gives the logits. `network` is the
                       example's model, `session` onnxruntime's, and `want` what foldgrad computes of the inputs
    """
    folds = [[]]  # options of `foldgrad fold`, of each folded model
    session = staticmethod(onnx_session)

    def real(self, logits):
        """Returns the logits that count, of those that any of the programs gives."""
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
        """Trains a run of a few updates and returns its directory."""
        norm, *options = spec.split()
        out = self.path(spec.replace(" ", "-"))
        sets = [f"norm.name={norm}"] + [f"norm.{norm}.{o}" for o in options] + [f"model.{k}" for k in kind]
        sets += ["model.pre_norm=false"] if norm == "deepnorm" else []
        call(PROGRAM, "train", self.path("config.toml"), "--data-dir", self.files, "--out", out,
             *[word for s in sets for word in ("--set", s)])
        return out

    def compare(self, what, model):
        """Returns foldgrad's logits, the largest difference of others, and the operators of the exported file."""
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
        """Writes random records of CIFAR-10: eight in each file."""
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
        expect(largest_difference(values, want) >= 1e-4, f"{spec} gives the logits of {other}: this compares nothing")
    seen[spec] = want
    for options in models.folds:
        what, folded = " ".join([f"{spec}, folded", *options]), run + "-folded" + "".join(options)
        call(PROGRAM, "fold", run, "-o", folded, *options)
        got, off, operators = models.compare(what, folded)
        worst = max(worst, off)
        off = largest_difference(got, want)
        expect(off <= 1e-4, f"{what}: the model differs by {off:.2e}")  # products of rounded weights in another order
        left = operators & {"Sqrt", "Pow", "LayerNormalization", "Tanh"} if spec.startswith("un") else set()
        expect(not left, f"{what}: the model still has {left}")
    return worst


def check_all(kind_of_models, script, family, config, load_model, normalizers, kinds, more, absent=None,
              also=lambda models: None):
    """Checks runs of the normalizers, each with one kind of model, in turn, and of `more`: (normalizer, kind).
    `absent`: all normalizers that have no run, as there are no nodes of ONNX for them. `also` is called at the end."""
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
