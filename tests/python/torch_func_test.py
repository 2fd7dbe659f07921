"""Checks that foldgrad_torch computes the same gradients and state under torch.func.grad and torch.vmap as with
backward(), and that the code for CPUs agrees with the code for other devices."""
import copy
import math
from functools import partial
from unittest.mock import patch

from setting import expect, expect_error, largest_difference, require, run_tests

require("torch")
import torch  # noqa: E402
from foldgrad_torch import MABN, PNStar, UN, channel_norm, normalize  # noqa: E402
from foldgrad_torch.normalize import column_sums, eager_cpu  # noqa: E402
from torch.func import functional_call, grad, stack_module_state, vmap  # noqa: E402

DOUBLE = {"dtype": torch.float64}


def inputs(seed, *shape):
    return torch.randn(*shape, **DOUBLE, generator=torch.Generator().manual_seed(seed))


def backward_steps(model, steps):
    """Returns the gradients that backward() computes in each step."""
    results = []
    for step in range(steps):
        model.zero_grad()
        (model(inputs(step, 6, 4)) * inputs(-step, 6, 4)).sum().backward()
        results.append({name: p.grad.clone() for name, p in model.named_parameters()})
    return results


def in_grad():
    """Checks torch.func.grad in training, with the module's buffers and with buffers passed as an argument."""
    for kind in (UN, MABN, PNStar):
        for given in (False, True):
            model = torch.nn.Sequential(kind(4, warmup=3, **DOUBLE), torch.nn.Linear(4, 4, **DOUBLE))
            other = copy.deepcopy(model)
            wanted = backward_steps(model, 8)
            parameters, buffers = dict(other.named_parameters()), dict(other.named_buffers())
            if given:
                buffers = {name: value.clone() for name, value in buffers.items()}
            for step in range(8):
                def loss(parameters, buffers):
                    y = functional_call(other, parameters | (buffers if given else {}), (inputs(step, 6, 4),))
                    return (y * inputs(-step, 6, 4)).sum()

                got = grad(loss)(parameters, buffers)
                off = max(largest_difference(got[name], wanted[step][name]) for name in got)
                expect(off <= 1e-14, f"{kind.__name__}, step {step}: gradients differ by {off:.1e}")
            for name, value in model.named_buffers():
                expect(largest_difference(buffers[name].double(), value.double()) <= 1e-14,
                       f"{kind.__name__}: {name} differs")


def mapped():
    """Checks that vmap trains all models of an ensemble at once and refuses to compute separate statistics for each
    example."""
    models = [torch.nn.Sequential(UN(4, warmup=3, **DOUBLE), torch.nn.Linear(4, 4, **DOUBLE)) for _ in range(3)]
    copies = copy.deepcopy(models)
    wanted = [backward_steps(model, 8)[-1] for model in models]
    parameters, buffers = stack_module_state(copies)
    for step in range(8):
        x, dy = inputs(step, 6, 4), inputs(-step, 6, 4)

        def loss(parameters, buffers):
            return (functional_call(copies[0], (parameters, buffers), (x,)) * dy).sum()

        got = vmap(grad(loss))(parameters, buffers)
    for i, model in enumerate(models):
        for name in got:
            expect(largest_difference(got[name][i], wanted[i][name]) <= 1e-13, f"model {i}: {name} differs")
        for name, value in model.named_buffers():
            expect(largest_difference(buffers[name][i].double(), value.double()) <= 1e-13, f"model {i}: {name} differs")
    norm = UN(4, **DOUBLE)
    expect_error(RuntimeError, "torch.vmap would compute separate statistics for each example",
                 lambda: vmap(norm)(inputs(1, 5, 6, 4)))
    norm.eval()
    expect(torch.equal(vmap(norm)(inputs(1, 5, 6, 4)), norm(inputs(1, 5, 6, 4))), "vmap differs at inference")


def sums():
    """Compares sums over rows in f32 with f64. The error must be that of 2,048 additions for any number of rows."""
    for rows in (1, 2048, 2049, 50000):
        a, b = (inputs(seed, rows, 3).square().float() for seed in (1, 2))
        for got, want in zip(column_sums(a, b), ((a.double() * b.double()).sum(0), a.double().sum(0))):
            expect(((got - want).abs() / want).max() <= 4e-6, f"wrong sums of {rows} rows")


def on_host():
    """Checks that the code for CPUs computes the same as the code for GPUs. Only the code for CPUs reads decisions
    on the host. Some inputs are outliers, and some inputs and gradients are not finite. A patch of eager_cpu makes
    this CPU run the code for GPUs."""
    un = [partial(UN, window=3, warmup=4, filtration=True, **options) for options in (
        {}, {"flag_low": False, "granularity": "layer_any"}, {"granularity": "channel", "hold_on_skip": True},
        {"flag_low": False, "granularity": "layer_sum"})]
    for kind in (*un, partial(UN, window=1, warmup=0), partial(UN, window=3, warmup=4, hold_on_skip=True),
                 partial(MABN, window=3, warmup=4), partial(PNStar, warmup=4)):
        norms, skips = [kind(4, **DOUBLE) for _ in range(2)], set()
        for t in range(24):
            x, dy = inputs(t, 6, 4), inputs(100 + t, 6, 4)
            x[:, 1] *= 30.0 if t in (9, 10, 15) else 1.0
            x[:, 2] *= 0.01 if t == 12 else 1.0
            x[0, 3] *= math.inf if t in (2, 13) else 1.0
            dy[0, 0] *= math.nan if t in (3, 17) else 1.0
            results = []
            for norm, here in zip(norms, (eager_cpu, lambda *tensors: False)):
                norm.zero_grad()
                with patch.object(normalize, "eager_cpu", here), patch.object(channel_norm, "eager_cpu", here):
                    y = norm(x.requires_grad_())
                    gradients = torch.autograd.grad(y, (x, norm.weight, norm.bias), dy)
                results.append([y, *gradients, *norm.buffers()])
            for got, want in zip(*results):
                expect(torch.allclose(got, want, rtol=1e-12, atol=1e-12, equal_nan=True),
                       f"{norms[0]}: the paths differ in pass {t}")
            skips.add(int(norms[0].skips))
        expect(len(skips) >= (5 if kind in un else 3), f"{norms[0]}: too few skips, {max(skips)}")


run_tests(__name__, "foldgrad_torch works under torch.func", in_grad, mapped, sums, on_host)
