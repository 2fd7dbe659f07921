"""examples/pytorch/un.py computes what foldgrad computes: by the traces of tests/golden, and by `foldgrad verify-traces`
on traces that it records itself; and it can stand where nn.LayerNorm stood."""
import glob
import os
import random
import subprocess
import sys
import tempfile

from setting import PROGRAM, SOURCES, largest_difference, require

require("torch")
import torch  # noqa: E402
from model_files import load_metadata, load_tensors, save_tensors  # noqa: E402
from un import MABN, PNStar, UN, real_tokens, replace_layer_norms  # noqa: E402

OPTIONS = {"window": int, "warmup": int, "alpha": float, "eps": float, "filtration": lambda v: v == "1",
           "granularity": str, "ddof": int, "flag_low": lambda v: v == "1", "hold_on_skip": lambda v: v == "1"}
LAYERS = {"un": UN, "mabn": MABN, "pn_star": PNStar}


def expect(holds, what):
    if not holds:
        sys.exit(what)


def make(metadata, width, dtype):
    options = {key: OPTIONS[key](value) for key, value in metadata.items() if key in OPTIONS}
    norm = LAYERS[metadata["layer"]](width, **options, dtype=dtype)
    norm.iters.fill_(int(metadata.get("start_iters", 0)))
    return norm


def replay(metadata, given, dtype=torch.float64):
    """All arrays of a trace, computed from its inputs."""
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
    """un_paper_* are of another program: all arrays within 1e-12."""
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
    """Inputs and options; some steps leave the level of the others."""
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
    """foldgrad agrees with traces that this module records, in f64; every case came up."""
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
        expect(seen.get(what, 0) > 1, f"the traces have too little of: {what} ({seen})")
    done = subprocess.run([PROGRAM, "verify-traces", *paths], capture_output=True, text=True)
    expect(done.returncode == 0, f"verify-traces: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def single_precision():
    """In f32 without the filter, which rounding can turn."""
    rng = random.Random(2)
    for _ in range(8):
        metadata, given = random_trace(rng, "un", torch.float64)
        metadata["filtration"] = "0"
        want, got = replay(metadata, given), replay(metadata, given, torch.float32)
        for name in want:
            difference = largest_difference(got[name].double(), want[name].double())
            expect(difference <= 1e-3, f"f32: {name} differs by {difference:.2e}")  # roots near eps amplify rounding


def warm_up_is_exact():
    """In warm-up dx is what autograd makes of the plain formula, also with a mask and with forward passes that wait."""
    torch.manual_seed(3)
    norm = UN(4, warmup=100, dtype=torch.float64)
    mask = torch.tensor([[True, True, False], [True, False, False]])
    inputs = [torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    outputs = [norm(x, mask) for x in inputs]
    G = []
    for i in (1, 0, 2):
        dy, x = torch.randn(2, 3, 4, dtype=torch.float64), inputs[i]
        outputs[i].backward(dy)
        copy = x.detach().clone().requires_grad_()
        z = copy / (copy[mask].square().mean(0) + norm.eps).sqrt()
        (z * norm.weight + norm.bias).backward(dy)
        expect(largest_difference(x.grad, copy.grad) <= 1e-13, f"forward pass {i + 1}: dx is not the gradient")
        G.append((i, (dy * z).sum((0, 1)) / mask.sum()))
    psi = torch.zeros(4, dtype=torch.float64)
    for i, g in G:
        expect(largest_difference(norm.win_g[i + 1], g) <= 1e-13, f"forward pass {i + 1}: its row of win_g")
        psi = 0.9 * psi + 0.1 * g
    expect(largest_difference(norm.psi_ema, psi) <= 1e-13, "psi_ema goes by the order of backward passes")


def state():
    """Inference writes nothing and is an affine map; a copy by state_dict goes on with the same bits; Inf is held."""
    torch.manual_seed(4)
    norm, x = UN(3, warmup=2, window=2), torch.randn(20, 3)
    for _ in range(5):
        norm(x * torch.rand(())).sum().backward()
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    norm.eval()
    y = norm(x)
    expect(all(torch.equal(value, before[name]) for name, value in norm.state_dict().items()), "inference wrote state")
    A = norm.weight / (norm.run_var + norm.eps).sqrt()
    expect(largest_difference(y, x * A + norm.bias) <= 1e-6, "inference is x A + bias")
    other = UN(3, warmup=2, window=2)
    other.load_state_dict(norm.state_dict())
    expect(torch.equal(other.train()(x), norm.train()(x)), "a copy goes on otherwise")
    broken = x.clone()
    broken[4, 1] = float("inf")
    for mask in (None, torch.arange(20) != 4):  # in q, and as padding in the sum of G
        norm(broken, mask).sum().backward()
        expect(all(value.isfinite().all() for value in norm.state_dict().values()), "an infinite input is in a buffer")
    expect(norm.skips == 1 and norm.iters == 8, "a held step is counted")
    norm.reset_iterations()
    expect(norm.iters == 0, "reset_iterations")


def in_an_encoder():
    """In nn.TransformerEncoder: trains, leaves padding out, and PyTorch's fast path does not take it for LayerNorm."""
    torch.manual_seed(5)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0, batch_first=True)
    model = replace_layer_norms(torch.nn.TransformerEncoder(layer, 2), warmup=3)
    norms = [module for module in model.modules() if isinstance(module, UN)]
    expect(len(norms) == 4, f"4 normalizers were to be replaced, got {len(norms)}")
    optimizer, losses = torch.optim.Adam(model.parameters(), 1e-2), []
    x, target = torch.randn(4, 6, 8), torch.randn(4, 6, 8)
    mask = torch.arange(6) < torch.tensor([[6], [5], [3], [2]])
    for _ in range(60):
        optimizer.zero_grad()
        with real_tokens(model, mask):
            loss = (model(x, src_key_padding_mask=~mask) - target)[mask].square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    expect(losses[-1] < 0.5 * losses[0], f"the loss went from {losses[0]:.3f} to {losses[-1]:.3f}")
    expect(all(norm.mask is None for norm in norms), "real_tokens leaves no mask behind")
    states = []
    for padding in (0.0, 1e3):
        copy = torch.nn.TransformerEncoder(layer, 2)
        replace_layer_norms(copy, warmup=3).load_state_dict(model.state_dict())
        with real_tokens(copy, mask):
            copy(torch.where(mask[..., None], x, padding), src_key_padding_mask=~mask)
        states.append(copy.state_dict())
    expect(all(torch.equal(states[0][name], states[1][name]) for name in states[0]), "padding reached the statistics")
    model.eval()
    slow = model(x)
    with torch.no_grad():
        fast = model(x)
        padded = model(x, src_key_padding_mask=~mask)
    expect(largest_difference(fast, slow) <= 1e-6, "inference without gradients differs: was it taken for LayerNorm?")
    expect(padded.shape == x.shape and padded[mask].isfinite().all(), "inference with padding")


def errors():
    for call, message in [(lambda: UN(4, window=0), "window 0 must be at least 1"),
                          (lambda: UN(4, granularity="layer"), "granularity must be one of layer_sum"),
                          (lambda: UN(4)(torch.zeros(2, 3)), "x must have 4 channels, got [2, 3]"),
                          (lambda: UN(4)(torch.zeros(2, 3, 4), torch.ones(3, 2)), "mask must be [2, 3], got [3, 2]")]:
        try:
            call()
        except ValueError as error:
            expect(message in str(error), f"the message must say '{message}', got '{error}'")
        else:
            sys.exit(f"no error: {message}")


def main():
    torch.set_num_threads(1)
    golden()
    with tempfile.TemporaryDirectory() as files:
        recorded(files)
    single_precision()
    warm_up_is_exact()
    state()
    in_an_encoder()
    errors()
    print("examples/pytorch/un.py agrees with foldgrad")


if __name__ == "__main__":
    main()
