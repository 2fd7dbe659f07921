"""Tests models with running statistics and trained weights. BatchNorm must fold, also in timm's models, and
replace_norms() must take over its statistics. Also tests calibrate(), and fold() after a training pass."""
import copy
import importlib.util

from setting import expect, expect_error, largest_difference, require, run_tests, warnings_of

require("torch", "safetensors")
import torch  # noqa: E402
from foldgrad_torch import MABN, UN, calibrate, fold, real_tokens, replace_norms  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import prune  # noqa: E402
from torch.optim.swa_utils import AveragedModel  # noqa: E402

DOUBLE = {"dtype": torch.float64}


def pretrained(model):
    """Imitates a pretrained model: makes statistics and weights random, and one variance in each BatchNorm 0."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(getattr(module, "running_var", None), torch.Tensor):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)[-1] = 0
                for parameter in module.parameters(recurse=False):
                    parameter.uniform_(-1, 2)
    return model.double().eval()


def folds(what, model, x, done, refused=(), **options):
    folded, report = fold(model, **options)
    expect(list(report.done) == list(done) and list(report.refused) == list(refused), f"{what}:\n{report}")
    with torch.no_grad():
        want, got = model(x), folded(x)
    off = ((got - want).abs().max() / want.abs().max()).item()
    expect(off <= 1e-10, f"{what}: folded and unfolded differ by {off:.1e}")  # 1/sqrt(eps) = 300 amplifies f64 rounding
    return report


def sequences():
    """Checks that a normalizer folds into the next layer, or into the previous layer if the next pads or is
    nonlinear."""
    torch.manual_seed(1)
    x, image = torch.randn(5, 6, **DOUBLE), torch.randn(2, 6, 7, 8, **DOUBLE)
    conv = {"groups": 2, "bias": False}
    for what, parts, inputs, done in [
            ("after", [nn.ReLU(), nn.BatchNorm2d(6), nn.Conv2d(6, 4, 3)], image, {"1": "into 2"}),
            ("before", [nn.Conv2d(6, 4, 3, padding=1, **conv), nn.BatchNorm2d(4), nn.ReLU()], image,
             {"1": "back into 0"}),
            ("between", [nn.Conv2d(6, 4, 1), nn.Dropout(), nn.BatchNorm2d(4), nn.Conv2d(4, 3, 3, padding=1)], image,
             {"2": "back into 0"}),
            ("two", [nn.Conv2d(6, 4, 1), nn.BatchNorm2d(4), nn.BatchNorm2d(4), nn.Conv2d(4, 3, 3)], image,
             {"1": "back into 0", "2": "into 3"}),
            ("1d", [nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3)], x, {"1": "back into 0"}),
            ("plain", [nn.BatchNorm1d(6, affine=False), nn.Linear(6, 3)], x, {"0": "into 1"}),
            ("eps", [nn.BatchNorm1d(6, eps=0.001, momentum=0.0), nn.Linear(6, 3)], x, {"0": "into 1"}),
            ("instance", [nn.InstanceNorm2d(6, affine=True, track_running_stats=True), nn.Conv2d(6, 3, 1)], image,
             {"0": "into 1"})]:
        expect(folds(what, pretrained(nn.Sequential(*parts)), inputs, done).done == done,
               f"{what}: folded into the wrong layer")
    back = nn.Sequential(nn.Conv2d(6, 4, 3), UN(4, dim=1, dtype=torch.float64), nn.ReLU()).double()
    for _ in range(3):
        back(image).sum().backward()
    warnings_of(lambda: folds("UN", back.eval(), image, ["1"]))


def different_axes():
    """Checks normalizers next to layers whose channels may be on a different axis. All axes have 6 elements."""
    torch.manual_seed(7)
    x, square, cube = (torch.randn(*[6] * axes, **DOUBLE) for axes in (2, 3, 4))
    norm, linear, conv = (lambda: nn.BatchNorm1d(6)), (lambda: nn.Linear(6, 6)), (lambda: nn.Conv1d(6, 6, 1))
    un = UN(6, dim=1, dtype=torch.float64)
    un.iters.fill_(10 ** 6)
    # A BatchNorm1d and its layer have the same channels only for some numbers of axes of x. The folded model must check
    # this number.
    for what, parts, right, wrong in [
            ("into nn.Linear", [norm(), linear()], x, square), ("back into nn.Linear", [linear(), norm()], x, square),
            ("into nn.Conv1d", [norm(), conv()], square, x), ("back into nn.Conv1d", [conv(), norm()], square, x),
            ("UN", [un, nn.Conv2d(6, 6, 1)], cube, square)]:
        model = pretrained(nn.Sequential(*parts))
        site = next(name for name, part in model.named_children() if hasattr(part, "running_var") or part is un)
        folds(what, model, right, [site])
        folded, _ = fold(model)
        model(wrong)
        for made in (folded, torch.fx.symbolic_trace(folded), torch.compile(folded, backend="eager")):
            expect_error(AssertionError, f"x must have {right.dim()} axes", lambda: made(wrong))
    # A convolution before the normalizer determines the number of axes.
    report = folds("between", pretrained(nn.Sequential(conv(), norm(), linear())), square, ["1"])
    expect(report.done["1"] == "back into 0", f"{report}")
    parts = {"good": pretrained(nn.Sequential(norm(), linear())), "a": norm(), "b": norm(), "c": linear(), "d": conv()}
    _, report = fold(pretrained(nn.ModuleDict(parts)), {"a": ["c", "d"], "b": []})
    expect(report.refused == {"a": "c and d have their channels at different axes",
                              "b": "`readers` names no layer for it"}, f"{report}")


class Crepe(nn.Module):
    """Has torchcrepe's pattern in forward(): activation, BatchNorm, pooling, padding."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv1_BN = nn.Conv2d(1, 4, (3, 1)), nn.BatchNorm2d(4, eps=0.001, momentum=0.0)
        self.conv2, self.conv2_BN = nn.Conv2d(4, 4, (3, 1)), nn.BatchNorm2d(4, eps=0.001, momentum=0.0)
        self.classifier = nn.Linear(4, 3)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.conv1_BN(nn.functional.relu(self.conv1(x))), (2, 1), (2, 1))
        x = self.conv2_BN(nn.functional.relu(self.conv2(nn.functional.pad(x, (0, 0, 1, 1)))))
        return self.classifier(x.permute(0, 2, 3, 1))


class Block(nn.Module):
    """A residual block. Both bn1 and the sum read the output of conv1, so bn1 cannot be folded into conv1."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1, self.conv2, self.bn2 = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Conv2d(
            4, 4, 3, padding=1), nn.BatchNorm2d(4)

    def forward(self, x, scale=None):
        y = self.conv1(x)
        return y + self.bn2(self.conv2(self.bn1(y).relu())) * (1 if scale is None else scale)


def by_graph():
    """Checks modules that define forward(): which normalizers are refused, and the effect of `writers`."""
    torch.manual_seed(2)
    x = torch.randn(2, 1, 16, 2, **DOUBLE)
    model = pretrained(Crepe())
    expect_error(ValueError, "conv1_BN  max_pool2d reads it but is not a linear layer", lambda: fold(model))
    x = torch.randn(2, 4, 6, 6, **DOUBLE)
    report = folds("block", pretrained(Block()), x, ["bn2"], ["bn1"])
    expect("relu reads it" in report.refused["bn1"] and report.done["bn2"] == "back into conv2", f"{report}")

    class Branching(nn.Module):
        """Control flow depends on values, so this module cannot be traced, but its block can."""

        def __init__(self):
            super().__init__()
            self.conv, self.bn, self.block = nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), Block()

        def forward(self, x):
            y = self.bn(self.conv(x)).relu()
            return self.block(y) if y.sum() > 0 else y

    model = pretrained(Branching())
    folds("branches", model, x, ["block.bn2"], ["bn", "block.bn1"])
    folds("named", model, x, ["bn", "block.bn2"], ["block.bn1"], writers={"bn": "conv"})
    expect_error(ValueError, "writers: the layer conv3, given for bn, does not exist",
                 lambda: fold(model, writers={"bn": "conv3"}))


def of_timm():
    """Checks fold() and replace_norms() on timm's models. Outputs must stay the same, and every normalizer must be
    done or refused."""
    if not importlib.util.find_spec("timm"):
        return print("timm's models are skipped, since there is no timm")
    import timm
    torch.manual_seed(3)
    for name, size, count, refused in [("resnet10t", 32, 14, 0), ("efficientnet_b0", 32, 49, 0),
                                       ("resnetv2_50", 32, 49, 17), ("regnetx_002", 32, 44, 0)]:
        model = pretrained(timm.create_model(name, pretrained=False, num_classes=5))
        with torch.no_grad():
            want = model(x := torch.randn(1, 3, size, size, **DOUBLE))
            folded, report = fold(model)
            off = ((folded(x) - want).abs().max() / want.abs().max()).item()
        expect(len(report.done) == count - refused and len(report.refused) == refused, f"{name}:\n{report}")
        expect(off <= 1e-9, f"{name}: folded and unfolded differ by {off:.1e}")
        if name == "resnet10t":
            replaced = copy.deepcopy(model)
            replace_norms(replaced)
            expect(((replaced(x) - want).abs().max() / want.abs().max()).item() <= 1e-9,
                   f"{name}: replace_norms() changed the outputs")
        else:
            expect_error(ValueError, "bn1 " if name[0] == "e" else "", lambda: replace_norms(copy.deepcopy(model)))
    model = timm.models.convnext.ConvNeXt(depths=(1, 1, 1, 1), dims=(8, 12, 16, 20), num_classes=5)
    expect(len(replace_norms(model, where=lambda name, norm: "stem" in name).done) == 1,
           "`where` must select one normalizer by its name")
    over_axis_1 = {"head.norm", *(f"stages.{i}.downsample.0" for i in (1, 2, 3))}
    report = replace_norms(copy.deepcopy(model), dim=1)
    expect(set(report.done) == over_axis_1 and len(report.refused) == 4,
           f"only norms over axis 1 must be replaced:\n{report}")
    report = replace_norms(model)
    expect(len(report.done) == 8 and not report.refused, f"all 8 normalizers must be replaced:\n{report}")
    model(torch.randn(1, 3, 32, 32)).sum().backward()


def taken_over():
    """Checks that replace_norms() keeps a BatchNorm's parameter objects and its outputs at inference."""
    torch.manual_seed(4)
    image = torch.randn(3, 6, 5, 5, **DOUBLE)
    for kind in (UN, MABN):
        model = pretrained(nn.Sequential(nn.Conv2d(6, 4, 3), nn.BatchNorm2d(4, eps=1e-3), nn.ReLU()))
        norm, want = model[1], model(image)
        replace_norms(model, kind)
        expect(model[1].weight is norm.weight and model[1].bias is norm.bias,
               "the parameters must stay the same objects")
        moment = norm.running_var + norm.running_mean ** 2
        expect(largest_difference(model[1].run_var, moment) <= 1e-15, "run_var must be the second moment")
        got = []
        expect(not warnings_of(lambda: got.append(model(image))), "a model with statistics must not warn")
        expect(largest_difference(got[0], want) <= 1e-12, f"{kind.__name__}: replace_norms() changed inference")
        warnings_of(lambda: folds("taken over", model, image, ["1"]))
    fresh = nn.Sequential(nn.BatchNorm2d(4, eps=1e-3))
    replace_norms(fresh)
    expect((fresh[0].weight == 1).all() and not fresh[0].bias.any() and (fresh[0].run_var == 1).all(),
           "wrong start values")
    expect("without statistics, at iteration 0" in warnings_of(lambda: fresh.eval()(image[:, :4].float()))[0],
           "no warning")


def calibrated():
    """Checks that calibrate() sets run_var to the mean of the batches' mean squares, and changes nothing else."""
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Dropout(), nn.Linear(4, 3)).double()
    replace_norms(model, warmup=50)
    model.eval()
    batches = [torch.randn(6, 4, **DOUBLE) for _ in range(8)]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    expect("calibrate(model, batches)" in warnings_of(lambda: model(batches[0]))[0], "no warning before calibrate()")
    for given in (batches, [(x, 1) for x in batches], [{"input": x} for x in batches]):
        model[1].run_var.fill_(1)
        expect(calibrate(model, given) == 8, "calibrate() must return the number of batches")
        want = torch.stack([model[0](x).square().mean(0) for x in batches]).mean(0)
        expect(largest_difference(model[1].run_var, want) <= 1e-14, "wrong run_var")
    others = [name for name, value in model.state_dict().items() if not torch.equal(value, before[name])]
    expect(others == ["1.run_var"] and not model.training and not model[1].training, f"changed: {others}")
    expect(not warnings_of(lambda: [model(batches[0]), fold(model)]), "a calibrated model must not warn")
    mask = torch.tensor([True] * 4 + [False] * 2)

    def masked(model, x):
        with real_tokens(model, mask):
            return model(x)

    calibrate(model, batches[:1], masked)
    expect(largest_difference(model[1].run_var, model[0](batches[0])[:4].square().mean(0)) <= 1e-14,
           "wrong run_var with a mask")
    for message, call in [("there is no batch", lambda: calibrate(model, [])),
                          ("Linear has no UN, MABN or PNStar", lambda: calibrate(model[0], batches))]:
        expect_error(ValueError, message, call)


class Keeps(nn.Linear):
    """Keeps its outputs in a buffer, an attribute, a dictionary, lists and an object."""

    def __init__(self):
        super().__init__(4, 4)
        self.register_buffer("last", torch.zeros(4))
        self.kept = {}

    def forward(self, x):
        y = super().forward(x)
        self.last, self.plain, self.kept["list"], self.kept["box"] = y[0], y, [y, (y, x)], Box(y)
        return y


class Box:
    def __init__(self, value):
        self.value = value


def after_a_training_pass():
    """Checks models after a training pass. fold() must copy models that hold tensors with a gradient history, refuse
    to fold into computed weights, and fold the rest."""
    torch.manual_seed(6)

    def pruned(layer):
        prune.l1_unstructured(layer, "weight", 0.5)
        return layer

    for what, layer, refused in [("pruning", pruned(nn.Linear(4, 4)), "1: its weight is computed, so it is"),
                                 ("weight_norm", nn.utils.weight_norm(nn.Linear(4, 4)), "1: its weight is computed"),
                                 ("keeps", Keeps(), "linear reads it but is not a linear layer")]:
        model = nn.Sequential(UN(4, warmup=0), layer, UN(4, warmup=0), nn.Linear(4, 3))
        for parameter_gradients in (False, True):
            for _ in range(6):
                model.train()(torch.randn(8, 4)).sum().backward(retain_graph=parameter_gradients)
        x = torch.randn(5, 4)
        folded, report = fold(model.eval())
        expect(refused in report.refused["0"] and report.done == {"2": "into 3"}, f"{what}:\n{report}")
        expect(largest_difference(folded(x), model(x)) <= 1e-6, f"{what}: the folded model differs")
    mine = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    mine[1].last = mine(torch.randn(2, 4))
    expect(list(replace_norms(mine).done) == ["1"], "replace_norms() must copy the modules that it tries")


def averaged():
    """Checks that fold() does not warn about an AveragedModel, whose iteration counters are averages."""
    model = nn.Sequential(UN(4, warmup=3, window=2), nn.Linear(4, 3))
    mean = AveragedModel(model, use_buffers=True)
    for _ in range(4):
        model(torch.randn(8, 4)).sum().backward()
        mean.update_parameters(model)
    expect(mean.module[0].iters < 3 <= model[0].iters, "the test needs an averaged counter in the warm-up")
    expect(not warnings_of(lambda: fold(mean)), "fold() warned about an averaged counter")


run_tests(__name__, "pretrained models fold and go on", sequences, different_axes, by_graph, of_timm, taken_over,
          calibrated, after_a_training_pass, averaged)
