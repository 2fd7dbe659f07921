"""Tests UN, MABN and PNStar of foldgrad_torch: gradients, the state and its precision, and passes that must not
count."""
from setting import expect, expect_error, largest_difference, require, run_tests, warnings_of

require("torch")
import torch  # noqa: E402
from foldgrad_torch import MABN, PNStar, UN, WarmUpWarning, real_tokens, warm_up_report  # noqa: E402
from torch.autograd import gradcheck  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

DOUBLE = {"dtype": torch.float64}
MASK = torch.tensor([[True, True, False], [True, False, False]])


def trained(norm, passes=8):
    """Trains the normalizer on random numbers of varying scale, and returns it."""
    torch.manual_seed(1)
    for _ in range(passes):
        x = torch.randn(2, 3, len(norm.weight), dtype=norm.weight.dtype) * (0.5 + torch.rand(()))
        norm(x).sum().backward()
    norm.zero_grad()
    return norm


def buffers(norm):
    return {name: value.clone() for name, value in norm.named_buffers()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def warm_up_is_exact():
    """Checks that dx equals the gradient that autograd computes for the plain formula. There is a mask, and three
    forward passes precede all backward passes."""
    torch.manual_seed(3)
    norm = UN(4, warmup=100, **DOUBLE)
    inputs = [torch.randn(2, 3, 4, **DOUBLE, requires_grad=True) for _ in range(3)]
    outputs = [norm(x, MASK) for x in inputs]
    G = []
    for i in (1, 0, 2):
        dy, x = torch.randn(2, 3, 4, **DOUBLE), inputs[i]
        outputs[i].backward(dy)
        copy = x.detach().clone().requires_grad_()
        z = copy / (copy[MASK].square().mean(0) + norm.eps).sqrt()
        (z * norm.weight + norm.bias).backward(dy)
        expect(largest_difference(x.grad, copy.grad) <= 1e-13, f"forward pass {i + 1}: dx must be the exact gradient")
        G.append((i, (dy * z).sum((0, 1)) / MASK.sum()))
    psi = torch.zeros(4, **DOUBLE)
    for i, g in G:
        expect(largest_difference(norm.win_g[i + 1], g) <= 1e-13, f"forward pass {i + 1}: wrong row of win_g")
        psi = 0.9 * psi + 0.1 * g
    expect(largest_difference(norm.psi_ema, psi) <= 1e-13, "psi_ema must follow the order of backward passes")


def gradients():
    """Checks gradients by finite differences: all gradients in the warm-up and at inference. After the warm-up dx is
    not exact, so only the parameters' gradients are checked."""
    torch.manual_seed(4)
    for kind in (UN, MABN, PNStar):
        for bias in (True, False):
            norm = kind(4, warmup=10 ** 6, bias=bias, **DOUBLE)
            x = torch.randn(2, 3, 4, **DOUBLE, requires_grad=True)
            parameters = [torch.randn(4, **DOUBLE, requires_grad=True) for _ in range(1 + bias)]

            def y(x, *parameters):
                values = dict(zip(("weight", "bias"), parameters)) | state
                return torch.func.functional_call(norm, values, (x, MASK))

            state = {}
            expect(gradcheck(y, (x, *parameters)), f"{kind.__name__}: wrong gradients in the warm-up")
            norm.warmup = 0
            trained(norm)

            def frozen(*parameters):  # finite differences need the same state in each call
                state.update(buffers(norm))
                return y(x.detach(), *parameters)

            expect(gradcheck(frozen, parameters), f"{kind.__name__}: wrong gradients after the warm-up")
            norm.eval()
            expect(gradcheck(y, (x, *parameters)), f"{kind.__name__}: wrong gradients at inference")


def state():
    """Checks that inference is affine and writes no state, that a copy with the same state_dict continues with the
    same bits, and that an infinite input does not enter the state."""
    torch.manual_seed(4)
    norm, x = trained(UN(3, warmup=2, window=2), 5), torch.randn(20, 3)
    before = buffers(norm)
    norm.eval()
    y = norm(x)
    expect(same(buffers(norm), before), "inference wrote state")
    A = norm.weight / (norm.run_var + norm.eps).sqrt()
    expect(largest_difference(y, x * A + norm.bias) <= 1e-6, "inference must be x A + bias")
    other = UN(3, warmup=2, window=2)
    other.load_state_dict(norm.state_dict())
    expect(torch.equal(other.train()(x), norm.train()(x)), "a copy with the same state_dict computes other numbers")
    broken = x.clone()
    broken[4, 1] = float("inf")
    for mask in (None, torch.arange(20) != 4):  # first q is infinite; then only padding is, which enters G's sum
        norm(broken, mask).sum().backward()
        expect(all(value.isfinite().all() for value in norm.state_dict().values()),
               "an infinite input has entered a buffer")
    expect(norm.skips == 1 and norm.iters == 8, "a held step must count as a skip and as an iteration")
    norm.reset_iterations()
    expect(norm.iters == 0, "reset_iterations() must set iters to 0")


def longest_hold():
    """Checks that hold_on_skip keeps 32 consecutive outliers out of run_var, and that the 33rd enters it."""
    norm = UN(2, window=3, warmup=0, filtration=True, hold_on_skip=True)
    for _ in range(10):
        norm(torch.ones(4, 2))
    before = norm.run_var.clone()
    for _ in range(32):
        norm(torch.full((4, 2), 5.0))
    expect(norm.skips == 32 and torch.equal(norm.run_var, before), "32 consecutive outliers must be held")
    norm(torch.full((4, 2), 5.0))
    expect(torch.allclose(norm.run_var, 0.9 * before + 0.1 * 25), "the 33rd outlier must enter the average")


def held_channels():
    """Checks that running values normalize the finite elements of a channel that has an infinite element."""
    for kind, psi in ((UN, "psi_ema"), (PNStar, "psi_ema"), (MABN, None)):
        norm = trained(kind(2, warmup=2, **DOUBLE))
        before, x, dy = buffers(norm), torch.randn(6, 2, **DOUBLE), torch.randn(6, 2, **DOUBLE)
        x[3, 0] = float("inf")
        x.requires_grad_()
        y = norm(x)
        y.backward(dy)
        root, others = (before["run_var"][0] + norm.eps).sqrt(), torch.arange(6) != 3
        z = x.detach()[others, 0] / root
        expect(largest_difference(y[others, 0], z) <= 1e-14, f"{kind.__name__}: wrong y in a held channel")
        wanted = (dy[others, 0] - z * (before[psi][0] if psi else 0)) / root
        expect(largest_difference(x.grad[others, 0], wanted) <= 1e-14, f"{kind.__name__}: wrong dx in a held channel")


def channels_at_axis_1():
    torch.manual_seed(5)
    last, first = UN(5, warmup=2, **DOUBLE), UN(5, warmup=2, dim=1, **DOUBLE)
    for training in (True, False):
        for norm in (last.train(training), first.train(training)):
            torch.manual_seed(6)
            norm.results = []
            for _ in range(8):
                x = torch.randn(2, 3, 4, 5, **DOUBLE, requires_grad=True)
                y = norm(x) if norm is last else norm(x.movedim(-1, 1)).movedim(1, -1)
                y.backward(torch.randn(2, 3, 4, 5, **DOUBLE))
                norm.results += [y, x.grad]
        # The two normalizers may add in different orders.
        expect(all(largest_difference(a, b) <= 1e-13 for a, b in zip(last.results, first.results)),
               "dim=1 changes results")


def precision():
    """Checks that the state stays in f32 when the parameters become bf16 or f16, and that it equals the state of an
    f32 normalizer with the same inputs."""
    for convert in (lambda n: n.bfloat16(), lambda n: n.half(), lambda n: n.to(torch.bfloat16)):
        norm = trained(UN(3, warmup=2))
        before = buffers(norm)
        convert(norm)
        expect(same(buffers(norm), before) and norm.run_var.dtype == torch.float32, "a conversion changed the state")
        expect(norm.weight.dtype.itemsize == 2, "the parameters must be converted")
    expect(trained(UN(3)).double().run_var.dtype == torch.float64, "double() must convert the state, too")
    low, wide = UN(3, warmup=2, dtype=torch.bfloat16), UN(3, warmup=2)
    expect(low.run_var.dtype == torch.float32, "the state of a bf16 normalizer must be f32")
    torch.manual_seed(7)
    with torch.no_grad():
        low.weight.copy_(torch.randn(3))
        wide.weight.copy_(low.weight)
    for _ in range(8):
        x, dy = torch.randn(2, 20, 3).bfloat16()
        for norm in (low, wide):
            y = norm(x.to(norm.weight.dtype))
            y.backward(dy.to(y.dtype))
        expect(y.dtype == torch.float32 and low(x).dtype == torch.bfloat16 == low.weight.grad.dtype, "wrong dtype")
        wide(x.float())  # matches the second pass of `low` above
    expect(same(buffers(low), buffers(wide)), "the parameters' dtype changes the state")
    with torch.autocast("cpu", torch.bfloat16):
        y = wide(torch.nn.functional.linear(torch.randn(4, 3), torch.randn(3, 3)))
    expect(y.dtype == torch.bfloat16 and wide.run_var.dtype == torch.float32, "wrong dtype under autocast")


def passes_that_do_not_count():
    """Checks that a training pass without gradients warns, computes what the next iteration computes, and writes no
    state. Also checks that a pass which checkpointing repeats raises an error."""
    for kind in (UN, MABN, PNStar):
        norm, x = trained(kind(3, warmup=2)), torch.randn(4, 3)
        before, seen = buffers(norm), []

        def without_gradients():
            with torch.no_grad():
                seen.append(norm(x))

        told = warnings_of(without_gradients)
        expect(len(told) == 1 and "without gradients is not an iteration" in told[0], f"no warning: {told}")
        expect(same(buffers(norm), before), "a pass without gradients wrote state")
        expect(torch.equal(seen[0], norm(x)) and norm.iters == 9,
               "a pass without gradients must compute what the next iteration computes")
    x = torch.randn(4, 3, requires_grad=True)
    for reentrant in (True, False):
        norm = UN(3)
        y = []
        warnings_of(lambda: y.append(checkpoint(lambda x: norm(x).square(), x, use_reentrant=reentrant)))
        expect_error(RuntimeError, "activation checkpointing repeats this forward pass", y[0].sum().backward)
    norm, layer = UN(3), torch.nn.Linear(3, 3)
    checkpoint(layer, norm(x), use_reentrant=False).sum().backward()
    expect(norm.iters == 1 and norm.win_g.any(),
           "if only the other layer is checkpointed, as the message says, the iteration must run and fill win_g")


def warm_up():
    model = torch.nn.Sequential(UN(3, warmup=4), torch.nn.Linear(3, 3), MABN(3, warmup=20, window=6))
    expect(not warnings_of(model.eval), "a new model's eval() must not warn")
    model.train()
    for _ in range(5):
        model(torch.randn(4, 3)).sum().backward()
    rows = warm_up_report(model)
    expect(rows == [("0", 5, 5), ("2", 5, 20)] and [row.over for row in rows] == [True, False], f"wrong report: {rows}")
    told = warnings_of(lambda: [model.eval(), model.train(), model(torch.randn(4, 3)), model.eval()])
    expect(len(told) == 1 and told[0].startswith("MABN: inference before iteration 20"),
           f"there must be one warning: {told}")
    told = warnings_of(lambda: model(torch.randn(4, 3)))
    expect(len(told) == 1 and told[0].startswith("MABN: inference before iteration 20"), f"use must warn once: {told}")
    expect(issubclass(WarmUpWarning, UserWarning), "users must be able to filter WarmUpWarning")
    expect(not warnings_of(lambda: model.eval()), "eval() must not warn again")


def inference_without_statistics():
    """Checks that inference at iteration 0 warns, also during export and tracing, but not if a trained state has
    been loaded."""
    model, x = torch.nn.Sequential(UN(3, warmup=4), torch.nn.ReLU()).eval(), torch.randn(4, 3)
    for use in (lambda: model(x), lambda: torch.export.export(model, (x,)), lambda: torch.jit.trace(model, x)):
        told = [text for text in warnings_of(use) if text.startswith("UN: ")]
        expect(len(told) == 1 and "without statistics, at iteration 0" in told[0], f"no warning: {told}")
    trained_state = torch.nn.Sequential(trained(UN(3, warmup=4))).state_dict()
    model.load_state_dict(trained_state)
    expect(not warnings_of(lambda: model(x)), "a loaded, trained state must not warn")
    model[0].reset_iterations()
    expect(not warnings_of(lambda: model(x)), "reset_iterations() must keep the statistics")


def errors():
    for message, call in [
            ("UN: window must be at least 1 and ddof 0 or 1, got 0 and 1", lambda: UN(4, window=0)),
            ("MABN: window must be at least 1, got 0", lambda: MABN(4, window=0)),
            ("alpha in [0, 1] and eps above 0, got 4, 10000, 1.5 and 1e-05", lambda: PNStar(4, alpha=1.5)),
            ("granularity must be one of pooled", lambda: UN(4, granularity="layer")),
            ("x must have 4 channels in the last axis, got [2, 3]", lambda: UN(4)(torch.zeros(2, 3))),
            ("x must have 4 channels in axis 1, got [2, 3]", lambda: UN(4, dim=1)(torch.zeros(2, 3))),
            ("x must have 4 channels in axis 1, got [4]", lambda: UN(4, dim=1)(torch.zeros(4))),
            ("x must have a floating-point dtype, got torch.int64", lambda: UN(4)(torch.ones(2, 4).long())),
            ("mask must have shape [2, 3], got [3, 2]", lambda: UN(4)(torch.zeros(2, 3, 4), torch.ones(3, 2))),
            ("real_tokens: Linear has no UN", lambda: real_tokens(torch.nn.Linear(2, 2), MASK).__enter__())]:
        expect_error(ValueError, message, call)
    for message, call in [("UN: width must be an integer, got (4,)", lambda: UN((4,))),
                          ("UN: warmup must be an integer, got 0.04", lambda: UN(4, warmup=0.04))]:
        expect_error(TypeError, message, call)
    x = torch.zeros(2, 4, requires_grad=True)
    first = torch.autograd.grad(UN(4)(x).square().sum(), x, create_graph=True)[0]
    expect_error(RuntimeError, "there are no second derivatives in training", first.sum().backward)


run_tests(__name__, "the normalizers of foldgrad_torch behave", warm_up_is_exact, gradients, state, longest_hold,
          held_channels, channels_at_axis_1, precision, passes_that_do_not_count, warm_up, inference_without_statistics,
          errors)
