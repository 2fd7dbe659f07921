"""Checks CKA between the layers of two vision Transformers against NumPy, which uses the layers' outputs in PyTorch."""
import tempfile

from family_models import ImageModels
from pytorch_vit import load_model
from vit_test import CONFIG
from setting import expect, require

require("foldgrad")

import foldgrad as fg
import numpy as np
import torch
from foldgrad import analyze

TOLERANCE = 1e-10  # in f64; HSIC is a difference of sums about 1e3 times larger


def hsic1(K, L):
    n, one = len(K), np.ones(len(K))
    K, L = K - np.diag(np.diag(K)), L - np.diag(np.diag(L))
    return (np.trace(K @ L) + (one @ K @ one) * (one @ L @ one) / ((n - 1) * (n - 2))
            - 2 / (n - 2) * (one @ K @ L @ one)) / (n * (n - 3))


def cka(X, Y):
    K, L = X @ X.T, Y @ Y.T
    return hsic1(K, L) / np.sqrt(hsic1(K, K) * hsic1(L, L))


def features(run, images):
    """Returns {layer: outputs [n, T C]}, in the order of the forward pass."""
    network, found = load_model(run, torch.float64), {}
    for name, module in network.named_modules():
        if name.rpartition(".")[2] in ("norm1", "attn", "norm2", "mlp", "norm"):
            module.register_forward_hook(lambda _m, _x, y, name=name: found.update({name: y.flatten(1).numpy()}))
    with torch.no_grad():
        network(images)
    return found


def main():
    with tempfile.TemporaryDirectory() as files:
        models = ImageModels(files, CONFIG, load_model)
        records = np.fromfile(models.path("cifar-10-batches-bin/test_batch.bin"), dtype=np.uint8).reshape(-1, 3073)
        images = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).copy())
        runs = [models.train(spec, ["pooling=mean"]) for spec in ("ln", "un warmup=1 window=2")]
        a, b = (features(run, images) for run in runs)
        of_a, of_b, got = analyze.cka(*map(fg.Run, runs), batch=len(images), data_dir=files, dtype="f64")
    expect(of_a == list(a) and of_b == list(b) and len(a) == 9,
           f"the layers must be {list(a)}, got {of_a} and {of_b}")
    want = np.array([[cka(X, Y) for Y in b.values()] for X in a.values()])
    off = np.abs(got - want).max()
    expect(off <= TOLERANCE,
           f"CKA is off by {off:.1e}, at most {TOLERANCE} is allowed: must be {want}, got {got}")
    expect(want.max() - want.min() >= 0.05, "layers must differ in CKA")
    print(f"{want.size} values of CKA, off by at most {off:.1e}")


if __name__ == "__main__":
    main()
