"""What tests of models that classify images share: PyTorch and onnxruntime give the logits of foldgrad for models
that it has trained, and for folded ones."""
import json
import os
import sys
import tempfile

from setting import PROGRAM, SOURCES, call, largest_difference, logits_of, require

require("numpy", "onnx", "onnxruntime", "torch")
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
import torch  # noqa: E402
from model_files import load_tensors, save_tensors  # noqa: E402

# Relative to 1 + |logit|: both sides round sums of f32 in different orders, some 1e-7 each. Errors in a formula are
# larger by orders of magnitude.
TOLERANCE = 1e-5
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
NORMALIZERS = ["un warmup=1 window=2", "un mode=reference warmup=1", "bn", "rbn eps=0.1", "qmbn", "mabn warmup=2",
               "pn_star warmup=2", "pn groups=4", "repbn", "ln", "prepbn", "deepnorm", "rmsnorm", "scalenorm", "fixnorm",
               "centernorm", "dyt", "derf", "groupnorm axes=token groups=4", "affine", "scale", "none"]


def write_images(directory):
    """Random records of CIFAR-10: eight in each file."""
    os.mkdir(directory)
    rng = np.random.default_rng(1)
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        records = rng.integers(0, 256, (8, 3073), dtype=np.uint8)
        records[:, 0] = rng.integers(0, 10, 8)
        records.tofile(os.path.join(directory, name))


def require_same(what, got, want):
    off = largest_difference(got, want)
    if not off <= TOLERANCE:
        sys.exit(f"{what}: the logits differ by {off:.2e}, at most {TOLERANCE} is allowed")
    return off


class Models:
    """A family's: `config` is the text of a configuration, load_model(path) the example's model."""

    def __init__(self, files, config, load_model):
        self.files, self.load_model, self.compared_folded = files, load_model, 0
        write_images(self.path("cifar-10-batches-bin"))
        with open(self.path("config.toml"), "w") as file:
            file.write(config)
        torch.manual_seed(1)
        self.images = torch.randint(0, 256, (5, 32, 32, 3), dtype=torch.uint8)

    def path(self, name):
        return os.path.join(self.files, name)

    def train(self, spec, kind):
        """A run of a few updates; its directory."""
        norm, *options = spec.split()
        out = self.path(spec.replace(" ", "-"))
        sets = [f"norm.name={norm}"] + [f"norm.{norm}.{o}" for o in options] + [f"model.{k}" for k in kind]
        sets += ["model.pre_norm=false"] if norm == "deepnorm" else []
        call(PROGRAM, "train", self.path("config.toml"), "--data-dir", self.files, "--out", out,
             *[word for s in sets for word in ("--set", s)])
        return out

    def onnx(self, model, images):
        """`images` are normalized. Also says which operators there are."""
        out = model + "-onnx"
        call(PROGRAM, "export", model, "--to", "onnx", "-o", out)
        file = os.path.join(out, "model.onnx")
        onnx.checker.check_model(file, full_check=True)
        operators = {node.op_type for node in onnx.load(file).graph.node}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        pixels = images.permute(0, 3, 1, 2).contiguous().numpy()
        return torch.from_numpy(session.run(["logits"], {"pixel_values": pixels})[0]), operators


def check(models, spec, kind, seen):
    run = models.train(spec, kind)
    want, network = logits_of(run, images=models.images), models.load_model(run)
    with torch.no_grad():
        logits, pixels = network(models.images), network.normalized(models.images)
    worst = require_same(f"{spec}, PyTorch", logits, want)
    require_same(f"{spec}, of normalized images", logits_of(run, images=pixels), want)
    worst = max(worst, require_same(f"{spec}, onnxruntime", models.onnx(run, pixels)[0], want))
    for other, values in seen.items():
        if largest_difference(values, want) < 1e-4:
            sys.exit(f"{spec} gives the logits of {other}: this compares nothing")
    seen[spec] = want
    folded = run + "-folded"
    call(PROGRAM, "fold", run, "-o", folded)
    got, operators = models.onnx(folded, pixels)
    worst = max(worst, require_same(f"{spec}, folded, onnxruntime", got, logits_of(folded, images=models.images)))
    if largest_difference(got, want) > 1e-4:  # products of rounded weights in another order
        sys.exit(f"{spec}: the folded model differs by {largest_difference(got, want):.2e}")
    with open(os.path.join(folded, "config.json")) as file:
        at = json.load(file)["norm"].get("at", {})
    if not any(site.endswith(".residual") for site in at):  # which the examples do not know
        network = models.load_model(folded)
        with torch.no_grad():
            worst = max(worst, require_same(f"{spec}, folded, PyTorch", network(models.images), got))
        models.compared_folded += 1
    left = operators & {"Sqrt", "Pow", "LayerNormalization", "Tanh"} if spec.startswith("un") else set()
    if left:
        sys.exit(f"{spec}: the folded model still has {left}")
    return worst


def check_all(script, family, config, load_model, normalizers, kinds, more, absent):
    """Runs of the normalizers, each with one kind of model, one after the other, and `more`: (normalizer, kind).
    `absent`: normalizers that the family does not have, or that have no nodes of ONNX."""
    known = {norm["name"] for norm in json.loads(call(PROGRAM, "norms", "--json"))}
    missing = known - {spec.split()[0] for spec in normalizers}
    if missing != absent:
        sys.exit(f"no run of {missing}")
    with tempfile.TemporaryDirectory() as files:
        models, seen = Models(files, config, load_model), {}
        all_of = [(spec, kinds[i % len(kinds)]) for i, spec in enumerate(normalizers)] + more
        worst = max(check(models, spec, kind, seen) for spec, kind in all_of)
        print(f"{len(all_of)} {family}, {models.compared_folded} of the folded in PyTorch too: "
              f"logits differ by at most {worst:.1e}")
        if 2 * models.compared_folded < len(all_of):
            sys.exit("most of the folded models must be compared with PyTorch's")
        given, out = models.path("in"), models.path("out")
        save_tensors(given, {"images": models.images})
        call(sys.executable, os.path.join(SOURCES, "examples", script), models.path("ln"), given, out)
        if load_tensors(out)["logits"].shape != (5, 10):
            sys.exit(f"{script} as a program gives no logits")
