"""Tests fold() of foldgrad_torch: the folded model must compute the same outputs and keep the normalizers that
cannot be folded."""
import copy

from setting import expect, expect_error, largest_difference, require, run_tests, warnings_of

require("torch", "safetensors")
import torch  # noqa: E402
from foldgrad_torch import MABN, PNStar, UN, fold, replace_norms  # noqa: E402
from foldgrad_torch.channel_norm import ChannelNorm  # noqa: E402
from torch import nn  # noqa: E402
from torch_blocks import GPT_READERS, VIT_READERS, Vit, gpt, vit  # noqa: E402

# Allows for sums of about 30 products in f64, in several layers, with normalizers that scale by 1/30 to 30.
TOLERANCE = 1e-11


def randomized(model):
    """Imitates training: draws random parameters, and running values from 1e-3 to 1e3. Sets counters beyond the
    warm-up."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * (0.3 if parameter.dim() > 1 else 1))
        for norm in model.modules():
            if isinstance(norm, ChannelNorm):
                norm.run_var.copy_(10 ** (6 * torch.rand_like(norm.run_var) - 3))
                norm.iters.fill_(10 ** 6)
    return model.double().eval()


def same_outputs(what, model, *inputs, done, refused=(), **options):
    """Folds the model and checks that outputs change by at most TOLERANCE times the largest output."""
    before = copy.deepcopy(model.state_dict())
    folded, report = fold(model, **options)
    expect(list(report.done) == list(done) and list(report.refused) == list(refused), f"{what}:\n{report}")
    with torch.no_grad():
        want, got = model(*inputs), folded(*inputs)
    off = ((got - want).abs().max() / want.abs().max()).item()
    expect(off <= TOLERANCE, f"{what}: folded and unfolded differ by {off:.1e} of the largest output")
    expect(all(torch.equal(value, before[name]) for name, value in model.state_dict().items()),
           f"{what}: fold() changed the original")
    left = sum(isinstance(module, (ChannelNorm, nn.LayerNorm)) for module in folded.modules())
    expect(left == len(report.refused), f"{what}: the folded model has {left} normalizers")
    return folded, report


def encoders():
    """Checks that pre-norm layers fold, and that the last norm folds if a layer follows it. Outputs are also
    compared with padding."""
    for kind in (UN, MABN, PNStar):
        for bias in (True, False):
            torch.manual_seed(1)
            layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True, bias=bias)
            encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8, bias=bias), enable_nested_tensor=False)
            replace_norms(encoder, kind)
            randomized(encoder)
            x = torch.randn(3, 5, 8, dtype=torch.float64)
            sites = [f"layers.{i}.norm{j}" for i in (0, 1) for j in (1, 2)]
            folded, report = same_outputs("encoder", encoder, x, done=sites, refused=["norm"])
            expect(report.done["layers.1.norm1"] == "into layers.1.self_attn", report.done["layers.1.norm1"])
            padding = torch.arange(5) >= torch.tensor([[5], [3], [4]])
            want, got = (m(x, src_key_padding_mask=padding) for m in (encoder, folded))
            expect(largest_difference(got, want) <= TOLERANCE, "outputs differ with padding and gradients")
            expect((folded.layers[0].self_attn.in_proj_bias is not None) == bias,
                   "fold() must add a bias exactly if B is not 0")
            classifier = nn.Sequential(encoder, nn.Dropout(), nn.Linear(8, 3).double()).eval()
            same_outputs("classifier", classifier, x, done=["0." + site for site in sites] + ["0.norm"])
            layer = copy.deepcopy(encoder.layers[0])
            same_outputs("layer", layer, x, done=["norm1", "norm2"])


def biases_are_made():
    """Checks that a linear layer without a bias gets one for B. Attention does not, since it has either all biases
    or none."""
    torch.manual_seed(2)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True, bias=False)
    layer.norm1, layer.norm2 = UN(8), UN(8)
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    _, report = same_outputs("attention", randomized(layer), x, done=["norm2"], refused=["norm1"])
    expect("self_attn has no biases: make the normalizer with bias=False" in report.refused["norm1"], f"{report}")
    same_outputs("linear", randomized(nn.Sequential(UN(8), nn.Linear(8, 3, bias=False))), x, done=["0"])


def models_of_others():
    torch.manual_seed(3)
    of_images, of_text = vit(), gpt(bias=True)
    replace_norms(of_images)
    replace_norms(of_text)
    sites = [f"blocks.{i}.norm{j}" for i in (0, 1) for j in (1, 2)]
    image = torch.randn(2, 8, 8, 3, dtype=torch.float64)
    same_outputs("vit", randomized(of_images), image, done=sites + ["norm"], readers=VIT_READERS)
    ids, sites = torch.randint(11, (2, 6)), [f"h.{i}.ln_{j}" for i in (0, 1) for j in (1, 2)]
    _, report = same_outputs("gpt", randomized(of_text), ids, done=sites, refused=["ln_f"], readers=GPT_READERS)
    expect("lm_head shares parameters with another layer" in report.refused["ln_f"], report.refused["ln_f"])
    of_text.lm_head.weight = nn.Parameter(of_text.lm_head.weight.clone())
    folded, _ = same_outputs("gpt untied", of_text, ids, done=sites + ["ln_f"], readers=GPT_READERS)
    expect(folded.lm_head.bias is not None, "lm_head must get B of the last normalizer as its bias")


def sequences():
    """Checks that a normalizer folds into the next layer, for a linear layer and every kind of convolution."""
    torch.manual_seed(4)
    x = torch.randn(2, 6, 7, dtype=torch.float64)
    image = torch.randn(2, 6, 7, 5, dtype=torch.float64)
    for norm, layer, inputs in [
            (UN(7), nn.Linear(7, 3), x), (UN(6, dim=1), nn.Conv1d(6, 4, 3), x),
            (UN(6, dim=1), nn.Conv2d(6, 4, 3), image), (UN(6, dim=1), nn.Conv2d(6, 4, 3, groups=2, bias=False), image),
            (UN(6, dim=1, bias=False), nn.Conv2d(6, 4, 3, padding=1), image),
            (UN(6, dim=1), nn.Conv2d(6, 4, 3, padding=1, padding_mode="reflect"), image),
            (UN(6, dim=1), nn.Conv2d(6, 4, (3, 1), padding="valid"), image),
            (UN(6, dim=1), nn.Conv3d(6, 4, 2), image[..., None].expand(-1, -1, -1, -1, 2))]:
        model = randomized(nn.Sequential(nn.Identity(), norm, nn.Dropout(), layer, nn.ReLU()))
        same_outputs(str(layer), model, inputs, done=["1"])


class Encoder(nn.TransformerEncoderLayer):
    pass


def refusals():
    """Checks all refusals in one model, which also has a normalizer that folds."""
    torch.manual_seed(5)
    shared, twice, tied = UN(8), nn.Linear(8, 8), nn.Linear(8, 8)
    other = nn.Linear(8, 8)
    other.weight = tied.weight
    parametrized = nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))
    old_style = nn.Linear(8, 8)
    old_style.register_parameter("weight_g", nn.Parameter(torch.ones(1)))
    del old_style._parameters["weight"]
    old_style.weight = torch.ones(8, 8)
    broken, again = UN(8), nn.ReLU()
    post, own = nn.TransformerEncoderLayer(8, 2, 16), Encoder(8, 2, 16, norm_first=True)
    for layer in (post, own):
        replace_norms(layer)
    parts = {
        "good": (nn.Sequential(UN(8), nn.Linear(8, 8)), {}),
        "activation": (nn.Sequential(UN(8), nn.ReLU()), {"0": "activation.1 is a ReLU, not a linear layer"}),
        "again": (nn.Sequential(again, UN(8), again, nn.Linear(8, 8)),
                  {"1": "again.0 reads it but is not a linear layer"}),
        "last": (nn.Sequential(nn.ReLU(), UN(8)), {"1": "it is the last module of an nn.Sequential"}),
        "zeros": (nn.Sequential(UN(8, dim=1), nn.Conv2d(8, 8, 3, padding=1)), {"0": "zeros.1 pads with zeros"}),
        "same": (nn.Sequential(UN(8, dim=1), nn.Conv2d(8, 8, 3, padding="same")), {"0": "same.1 pads with zeros"}),
        "axis": (nn.Sequential(UN(8, dim=1), nn.Linear(8, 8)),
                 {"0": "axis.1 has its channels at axis -1, but the normalizer has them at 1"}),
        "axis_1": (nn.Sequential(UN(8), nn.Conv2d(8, 8, 3)),
                   {"0": "axis_1.1 has its channels at axis 1, but the normalizer has them at -1"}),
        "width": (nn.Sequential(UN(8), nn.Linear(9, 8)), {"0": "width.1 reads 9 channels, not 8"}),
        "shared_1": (nn.Sequential(shared, nn.Linear(8, 8)), {"0": "it is used in several places"}),
        "shared_2": (nn.Sequential(shared, nn.Linear(8, 8)), {}),
        "twice_1": (nn.Sequential(UN(8), twice), {"0": "twice_1.1 shares parameters with another layer"}),
        "twice_2": (nn.Sequential(nn.ReLU(), twice), {}),
        "tied_1": (nn.Sequential(UN(8), tied), {"0": "tied_1.1 shares parameters with another layer"}),
        "tied_2": (nn.Sequential(nn.ReLU(), other), {}),
        "computed": (nn.Sequential(UN(8), parametrized), {"0": "is a ParametrizedLinear, not a linear layer"}),
        "old_style": (nn.Sequential(UN(8), old_style), {"0": "its weight is computed, so it is not a parameter"}),
        "broken": (nn.Sequential(broken, nn.Linear(8, 8)), {"0": "its state or parameters are not finite"}),
        "unknown": (nn.ModuleList([UN(8)]), {"0": "it is unknown which layers read it"}),
        "post": (post, {"norm1": "post-norm", "norm2": "post-norm"}),
        "own": (own, {"norm1": "a subclass of nn.TransformerEncoderLayer", "norm2": "a subclass"}),
        "online": (nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8)), {"0": "LayerNorm is not a UN, MABN or PNStar"}),
        "both": (nn.ModuleDict({"a": UN(8), "b": UN(8), "c": nn.Linear(8, 8)}),
                 {"a": "both.c reads several normalizers", "b": "both.c reads several normalizers"})}
    model = randomized(nn.ModuleDict({name: part for name, (part, _) in parts.items()}))
    with torch.no_grad():
        broken.weight[3] = float("nan")
    _, report = fold(model, {"both.a": "both.c", "both.b": "both.c"})
    expect(list(report.done) == ["good.0"], f"only good.0 can be folded:\n{report}")
    wanted = {f"{name}.{site}": reason for name, (_, refused) in parts.items() for site, reason in refused.items()}
    expect(report.refused.keys() == wanted.keys(), f"{report.refused.keys() ^ wanted.keys()}:\n{report}")
    for name, reason in wanted.items():
        expect(reason in report.refused[name], f"{name}: must say '{reason}', says '{report.refused[name]}'")


def errors():
    torch.manual_seed(7)
    folded, _ = fold(randomized(nn.Sequential(UN(2), nn.Linear(2, 2))))
    decoder = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True, norm_first=True)
    replace_norms(decoder)
    for message, model, readers in [
            ("Linear has nothing that can be folded\n", nn.Linear(2, 2), {}),
            ("folded: it has been folded before", folded, {}),
            ("LayerNorm is not a UN, MABN or PNStar; call replace_norms first", nn.Sequential(nn.LayerNorm(2)), {}),
                        ("refused  0  it is the last", nn.Sequential(UN(2)), {}),
            ("no normalizer has a name that ends with norm3; the normalizers are blocks.0.norm1", vit(),
             {"norm3": "head"}),
            ("readers: the layer blocks.0.attention, given for blocks.0.norm1, does not exist", vit(),
             {"norm1": ["attention"]})]:
        if isinstance(model, Vit):
            replace_norms(model)
        expect_error(ValueError, message, lambda: warnings_of(lambda: fold(model, readers)))


def precision_and_warm_up():
    """Checks that folding rounds products only once, warns during the warm-up, and leaves the original in training
    mode."""
    torch.manual_seed(6)
    for dtype in (torch.float32, torch.bfloat16):
        model = randomized(nn.Sequential(UN(8), nn.Linear(8, 5))).to(dtype)
        folded, _ = fold(model)
        model.double()
        A, B = model[0].affine()
        expect(torch.equal(folded[1].weight, (model[1].weight * A).to(dtype)),
               f"{dtype}: W diag(A) must be rounded only once")
        bias = (model[1].bias + model[1].weight @ B).to(dtype)
        # A sum in another order may be rounded to an adjacent number.
        expect(largest_difference(folded[1].bias, bias) <= torch.finfo(dtype).eps and folded[1].bias.dtype == dtype,
               f"{dtype}: the bias must be b + W B")
    model = nn.Sequential(UN(8, warmup=10), nn.Linear(8, 5), MABN(5, warmup=0), nn.Linear(5, 5))
    made = []
    told = warnings_of(lambda: made.append(fold(model)[0]))
    expect(len(told) == 1 and told[0].endswith("1 normalizers have not reached the first iteration that uses averages: "
                                               "0 is at 0 of 10"), f"{told}")
    expect(model.training and model[0].training and not made[0].training, "training modes are wrong")


run_tests(__name__, "folded models compute what the unfolded ones do", encoders, biases_are_made, models_of_others,
          sequences, refusals, errors, precision_and_warm_up)
