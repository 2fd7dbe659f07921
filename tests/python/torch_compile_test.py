"""Checks that foldgrad_torch computes the same numbers and state under torch.compile and torch.export as in eager
mode."""
import copy

from setting import expect, expect_error, largest_difference, require, run_tests, warnings_of

require("torch")
import torch  # noqa: E402
from foldgrad_torch import MABN, PNStar, UN, fold, real_tokens, replace_norms  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402


def encoder(kind):
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    replace_norms(model, kind, warmup=3)
    return model.double()


def steps(model, run, masked):
    """Returns outputs, gradients and buffers of eight iterations. With `masked`, each iteration has different
    padding."""
    torch.manual_seed(2)
    results = []
    for i in range(8):
        x = torch.randn(3, 4, 8, dtype=torch.float64, requires_grad=True)
        mask = torch.rand(3, 4) < 0.7 + 0.05 * i
        mask[:, 0] = True
        if masked:
            with real_tokens(model, mask):
                y = run(x)
        else:
            y = run(x)
        y.backward(torch.randn_like(y))
        results += [y.detach(), x.grad]
    return results + [p.grad for p in model.parameters()] + [b.double() for b in model.buffers()]


def compiled():
    """Checks models that are compiled only once, into a single graph. The backend aot_eager makes graphs but no
    machine code."""
    for kind, masked in [(UN, False), (UN, True), (MABN, False), (PNStar, True)]:
        torch._dynamo.reset()
        model = encoder(kind)
        copied = copy.deepcopy(model)
        want = steps(model, model, masked)
        with torch._dynamo.config.patch(error_on_recompile=True):
            got = steps(copied, torch.compile(copied, backend="aot_eager", fullgraph=True), masked)
        difference = max(largest_difference(a, b) for a, b in zip(got, want))
        # Both compute in f64, but PyTorch's decompositions may add in a different order.
        expect(difference <= 1e-12, f"{kind.__name__}: the compiled model differs by {difference:.1e}")


class Checkpointed(nn.Module):
    def __init__(self, inside):
        super().__init__()
        self.norm, self.layer, self.inside = UN(4, warmup=2, dtype=torch.float64), nn.Linear(4, 4).double(), inside

    def forward(self, x):
        if self.inside:
            return checkpoint(lambda x: self.layer(self.norm(x)).relu(), x, use_reentrant=False)
        return checkpoint(lambda x: self.layer(x).relu(), self.norm(x), use_reentrant=False)


def checkpointed():
    """Checks activation checkpointing. A compiled normalizer inside a checkpoint must raise an error; a checkpoint
    around the next layer must not. Passes under no_grad must not count as iterations."""
    torch._dynamo.reset()
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    model = Checkpointed(True)
    y = torch.compile(model, backend="aot_eager", fullgraph=True)(x)
    expect_error(RuntimeError, "activation checkpointing repeats this forward pass", y.sum().backward)
    model = Checkpointed(False)
    copied = copy.deepcopy(model)
    run = torch.compile(copied, backend="aot_eager", fullgraph=True)
    for _ in range(8):
        for call in (model, run):
            call(x).square().sum().backward()
    with torch.no_grad():
        run(x)
    difference = max(largest_difference(a.double(), b.double()) for a, b in zip(model.buffers(), copied.buffers()))
    expect(difference <= 1e-12, f"checkpointed: the state differs by {difference:.1e}")


def exported():
    """Checks that models exported for inference accept any batch size and length, and that a folded model computes
    no square root."""
    model = encoder(UN)
    steps(model, model, False)
    model.eval()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    sizes = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("length")},)
    program = torch.export.export(model, (x,), dynamic_shapes=sizes)
    y = torch.randn(3, 7, 8, dtype=torch.float64)
    expect(largest_difference(program.module()(y), model(y)) <= 1e-12, "the exported program differs")
    roots = []
    for graph in (program, torch.export.export(fold(model)[0], (x,), dynamic_shapes=sizes)):
        roots.append(sum("sqrt" in str(node.target) for node in graph.graph.nodes))
        expect(largest_difference(graph.module()(y), model(y)) <= 1e-11, "the exported folded program differs")
    expect(roots == [2, 0], f"square roots in the graph, unfolded and folded: {roots}")


run_tests(__name__, "compiled and exported, foldgrad_torch computes the same", lambda: warnings_of(exported), compiled,
          checkpointed)
