"""Checks that foldgrad_torch computes the same as foldgrad. It must reproduce the traces of tests/golden, and
`foldgrad verify-traces` must accept the traces that it records."""
import glob
import os
import random
import subprocess
import tempfile

from setting import PROGRAM, SOURCES, expect, largest_difference, require

require("numpy", "safetensors", "torch")
import torch  # noqa: E402
from foldgrad_torch import MABN, PNStar, UN  # noqa: E402
from model_files import load_metadata, load_tensors, save_tensors  # noqa: E402

OPTIONS = {"window": int, "warmup": int, "alpha": float, "eps": float, "filtration": lambda v: v == "1",
           "granularity": str, "ddof": int, "flag_low": lambda v: v == "1", "hold_on_skip": lambda v: v == "1"}
LAYERS = {"un": UN, "mabn": MABN, "pn_star": PNStar}


def make(metadata, width, dtype):
    options = {key: OPTIONS[key](value) for key, value in metadata.items() if key in OPTIONS}
    norm = LAYERS[metadata["layer"]](width, **options, dtype=dtype)
    norm.iters.fill_(int(metadata.get("start_iters", 0)))
    return norm


def replay(metadata, given, dtype=torch.float64):
    """Returns all arrays of a trace, computed from its inputs."""
    steps, _, width = given["x"].shape
    norm = make(metadata, width, dtype)
    arrays = {name: [] for name in ["y", "dx", "dgamma", "dbeta"] + [f"state.{b}" for b, _ in norm.named_buffers()]}
    with torch.no_grad():
        norm.weight.copy_(given["gamma"])
        norm.bias.copy_(given["beta"])
    for t in range(steps):
        x = given["x"][t].to(dtype).requires_grad_()
        norm.zero_grad()
        y = norm(x, given["mask"][t].bool() if metadata.get("masked") == "1" else None)
        y.backward(given["dy"][t].to(dtype))
        for name, value in {"y": y, "dx": x.grad, "dgamma": norm.weight.grad, "dbeta": norm.bias.grad}.items():
            arrays[name].append(value.detach().clone())
        for name, value in norm.named_buffers():
            arrays[f"state.{name}"].append(value.clone())
    return {name: torch.stack(values) for name, values in arrays.items()}


def golden():
    """Checks that all arrays agree within 1e-12 with the traces un_paper_*, which another program recorded."""
    files = sorted(glob.glob(os.path.join(SOURCES, "tests", "golden", "un_paper_*.safetensors")))
    expect(len(files) >= 13, f"only {len(files)} traces of un_paper in tests/golden")
    for path in files:
        trace = load_tensors(path)
        got, compared = replay(load_metadata(path), trace), 0
        for name, want in trace.items():
            if name in ("x", "dy", "mask", "gamma", "beta"):
                continue
            difference = largest_difference(got[name].double(), want.double())
            expect(difference <= 1e-12, f"{os.path.basename(path)}: {name} differs by {difference:.2e}")
            compared += 1
        expect(compared >= 9, f"{path}: only {compared} arrays")


def random_trace(rng, layer, dtype):
    """Draws options and inputs. In some steps x is scaled by 1.5, 30 or 0.03."""
    metadata = {"layer": layer, "mode": "paper", "masked": str(rng.randrange(2)), "alpha": str(rng.choice([0.5, 0.9])),
                "start_iters": str(rng.choice([0, 0, 1200])), "warmup": str(rng.randrange(12)), "eps": "1e-5"}
    if layer != "pn_star":
        metadata["window"] = str(rng.choice([1, 2, 3, 4, 6]))
    if layer == "un":
        metadata |= {"filtration": str(rng.randrange(2)), "granularity": rng.choice(UN.granularities),
                     "ddof": str(rng.randrange(2)), "hold_on_skip": str(rng.randrange(2)),
                     "flag_low": str(rng.randrange(2))}
    steps, tokens, width = 30, rng.randrange(1, 9), rng.randrange(1, 6)
    of = {"dtype": dtype}
    level = torch.randn(width, **of).exp() * torch.tensor([rng.choice([1.0] * 6 + [1.5, 30, 0.03])
                                                           for _ in range(steps)], **of)[:, None, None]
    given = {"x": torch.randn(steps, tokens, width, **of) * level, "dy": torch.randn(steps, tokens, width, **of),
             "gamma": torch.randn(width, **of), "beta": torch.randn(width, **of),
             "mask": (torch.rand(steps, tokens) < 0.7).to(torch.uint8)}
    if metadata["masked"] == "0":
        given["mask"].fill_(1)
    return metadata, given


def recorded(files):
    """Records 50 traces in f64. Checks that they cover all cases, and that foldgrad agrees with them."""
    rng, paths, seen = random.Random(1), [], {}
    torch.manual_seed(1)
    for i in range(50):
        metadata, given = random_trace(rng, rng.choice(["un", "un", "un", "mabn", "pn_star"]), torch.float64)
        arrays = replay(metadata, given)
        paths.append(os.path.join(files, f"{i}.safetensors"))
        save_tensors(paths[-1], given | arrays, metadata)
        outliers = metadata.get("filtration") == "1" and arrays["state.skips"][-1] > 0
        for what in [metadata["layer"], f"masked {metadata['masked']}", f"window {metadata.get('window')}",
                     f"{metadata.get('granularity')} {'fired' if outliers else 'quiet'}"]:
            seen[what] = seen.get(what, 0) + 1
        if not given["mask"].any(1).all():
            seen["padding alone"] = seen.get("padding alone", 0) + 1
    wanted = ["un", "mabn", "pn_star", "masked 0", "masked 1", "window 1", "padding alone"]
    for what in wanted + [f"{granularity} fired" for granularity in UN.granularities]:
        expect(seen.get(what, 0) > 1, f"at least two traces must have {what}, got {seen}")
    done = subprocess.run([PROGRAM, "verify-traces", *paths], capture_output=True, text=True)
    expect(done.returncode == 0, f"verify-traces: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def single_precision():
    """Compares f32 with f64. The outlier filter is off, since rounding errors could change its decisions."""
    rng = random.Random(2)
    for _ in range(8):
        metadata, given = random_trace(rng, "un", torch.float64)
        metadata["filtration"] = "0"
        want, got = replay(metadata, given), replay(metadata, given, torch.float32)
        for name in want:
            difference = largest_difference(got[name].double(), want[name].double())
            expect(difference <= 1e-3,
                   f"f32: {name} differs by {difference:.2e}")  # small roots amplify rounding errors


if __name__ == "__main__":
    torch.set_num_threads(1)
    golden()
    with tempfile.TemporaryDirectory() as files:
        recorded(files)
    single_precision()
    print("foldgrad_torch agrees with foldgrad")
