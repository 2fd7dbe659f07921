#!/usr/bin/env python3
"""foldgrad's NFNet, written out in PyTorch.

    examples/pytorch_nfnet.py MODEL IN.safetensors OUT.safetensors

computes the same results as `foldgrad run MODEL --input IN.safetensors --output OUT.safetensors`. Parameters have
timm's names, but gains are vectors. MODEL is a model directory or a run. If it is a run, its best checkpoint is used,
or the latest one if there is no best. normalizers.py has the normalizers. The computation is in torch.float32, or in
float64 with --dtype float64.
"""
import torch
import torch.nn.functional as F
from torch import nn

from model_files import load_config, load_values, model_directory, run_program
from normalizers import make_norm
from pytorch_model import ACTIVATIONS
from pytorch_vit import normalized


def gained(x, m):
    """Returns the activation of x, times the constant with which gelu keeps the variance of a standard normal x."""
    return ACTIVATIONS[m["activation"]](x) * 1.7015043497085571


class Conv(nn.Conv2d):
    """A convolution, whose weights are standardized unless `standardization` is "none", and its normalizer."""

    def __init__(self, config, name, channels, out, kernel=1, stride=1, groups=1):
        m = config["model"]
        around = kernel // 2 if m["padding"] == "port" and name.startswith("stages") else 0
        super().__init__(channels, out, kernel, stride, around, groups=groups)
        self.same, self.standardization = m["padding"] == "same", m["standardization"]
        if self.standardization != "none":
            self.gain = nn.Parameter(torch.ones(out))
        self.norm = make_norm(config, name + ".norm", out)

    def standardized(self):
        if self.standardization == "none":
            return self.weight
        w = self.weight.flatten(1)
        variance, mean = torch.var_mean(w, 1, unbiased=self.standardization == "unbiased", keepdim=True)
        w = (w - mean) / (variance * w.shape[1]).clamp(min=1e-4).sqrt() * self.gain[:, None]
        return w.view_as(self.weight)

    def forward(self, x):
        if self.same:
            size, stride, kernel = x.shape[-1], self.stride[0], self.kernel_size[0]
            zeros = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            x = F.pad(x, (zeros // 2, zeros - zeros // 2) * 2)
        y = F.conv2d(x, self.standardized(), self.bias, self.stride, self.padding, groups=self.groups)
        return self.norm(y.flatten(2).transpose(1, 2)).transpose(1, 2).unflatten(2, y.shape[2:])


class Block(nn.Module):
    def __init__(self, config, name, channels, out, is_first, stride, beta):
        super().__init__()
        self.m = m = config["model"]
        self.stride, self.beta, inner = stride, beta, out // 2
        groups = inner // m["group_size"]
        if is_first:
            self.downsample = nn.Module()
            self.downsample.conv = Conv(config, name + ".downsample.conv", channels, out)
        self.conv1 = Conv(config, name + ".conv1", channels, inner)
        self.conv2 = Conv(config, name + ".conv2", inner, inner, 3, stride, groups)
        self.conv2b = Conv(config, name + ".conv2b", inner, inner, 3, 1, groups)
        self.conv3 = Conv(config, name + ".conv3", inner, out)
        self.attn_last = nn.ModuleDict({"fc1": nn.Linear(out, inner), "fc2": nn.Linear(inner, out)})
        self.skipinit_gain = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        m, u, shortcut = self.m, gained(x, self.m) * self.beta, x
        if hasattr(self, "downsample"):
            shortcut = self.downsample.conv(F.avg_pool2d(u, 2, 2, u.shape[-1] % 2) if self.stride == 2 else u)
        r = self.conv1(u)
        for conv in (self.conv2, self.conv2b, self.conv3):
            r = conv(gained(r, m))
        w = self.attn_last["fc1"](r.mean((2, 3)))
        w = self.attn_last["fc2"](F.relu(w) if m["gate_activation"] == "relu" else gained(w, m))
        return 0.2 * self.skipinit_gain * 2 * torch.sigmoid(w)[..., None, None] * r + shortcut


class NfNet(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.m = m = config["model"]
        channels, width = m["channels"], m["channels"][0] // 2
        widths, self.stem = [3] + [width // 8, width // 4, width // 2, width], nn.ModuleDict()
        for i, stride in enumerate((m["stem_stride"], 1, 1, 2)):
            name = f"conv{i + 1}"
            self.stem[name] = Conv(config, f"stem.{name}", widths[i], widths[i + 1], 3, stride)
        self.stages, variance = nn.ModuleList(), 1
        for s, (out, depth) in enumerate(zip(channels, m["depths"])):
            self.stages.append(nn.ModuleList())
            for b in range(depth):
                stride = 2 if s > 0 and b == 0 else 1
                self.stages[s].append(Block(config, f"stages.{s}.{b}", width, out, b == 0, stride, variance ** -0.5))
                variance, width = (1 if b == 0 else variance) + 0.04, out
        self.final_conv = Conv(config, "final_conv", width, 2 * width)
        self.head = nn.ModuleDict({"fc": nn.Linear(2 * width, m["classes"])})

    def normalized(self, images):
        return normalized(images, self.m, self.final_conv.weight.dtype)

    def forward(self, images):
        """Returns the logits [B, classes] of images [B, S, S, 3]."""
        x = self.normalized(images).permute(0, 3, 1, 2)
        for i, conv in enumerate(self.stem.values()):
            x = conv(gained(x, self.m) if i else x)
        for stage in self.stages:
            for block in stage:
                x = block(x)
        return self.head["fc"](gained(self.final_conv(x), self.m).mean((2, 3)))


def load_model(path, dtype=torch.float32):
    directory = model_directory(path)
    model = NfNet(load_config(directory, "nfnet")).to(dtype)
    model.load_state_dict(load_values(directory, model))
    return model.eval()


if __name__ == "__main__":
    run_program(__doc__, load_model, lambda model, given: {"logits": model(given["images"])})
