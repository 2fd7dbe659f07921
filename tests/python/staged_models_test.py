"""Checks that foldgrad and onnxruntime compute equal logits for trained and folded Swin, ConvNeXt and
EfficientNet-Lite0 models."""
import json
import os
import tempfile

from family_models import TRAINING, ImageModels, check, onnx_operators, require_same
from model_files import model_directory
from setting import PROGRAM, call, logits_of
import torch

SWIN = """
[model]
family = "swin"
patch = 4
window = 2
depths = [2, 1]
width = 8
ffn_width = 12
heads = 2
""" + TRAINING
CONVNEXT = """
[model]
family = "convnext"
channels = [6, 8]
depths = [1, 2]
patch = 4
""" + TRAINING
LITE = """
[model]
family = "efficientnet_lite"
""" + TRAINING.replace("lr = 0.02", "lr = 1e-4")  # with a larger rate, 49 layers amplify rounding errors
UN = "un warmup=1 window=2"
RUNS = [(SWIN, [(UN, []), ("bn", ["qkv_bias=false"]), ("ln", ["window=4", "activation=relu"]),
                ("rmsnorm", ["window=8"]), ("dyt", ["fc_norm=true"]), ("none", [])]),
        (CONVNEXT, [(UN, []), ("bn", []), ("ln", ["patch=8"]), ("dyt", []), ("none", [])]),
        (LITE, [(UN, []), ("bn", [])])]


class Exported(ImageModels):
    def compare(self, what, model):
        """Returns foldgrad's logits, their difference from onnxruntime's, and the operators in the exported file."""
        want = logits_of(model, **self.given)
        call(PROGRAM, "export", model, "--to", "onnx", "-o", model + "-onnx")
        with open(os.path.join(model_directory(model), "config.json")) as file:
            keys = json.load(file)["model"]
        pixels = (self.given["images"] / 255 - torch.tensor(keys["image_mean"])) / torch.tensor(keys["image_std"])
        pixels = pixels.permute(0, 3, 1, 2).contiguous().numpy()
        got = torch.from_numpy(self.session(model + "-onnx").run(["logits"], {"pixel_values": pixels})[0])
        return want, require_same(f"{what}, onnxruntime", got, want), onnx_operators(model + "-onnx")


if __name__ == "__main__":
    for config, runs in RUNS:
        with tempfile.TemporaryDirectory() as files:
            models, seen = Exported(files, config, load_model=None), {}
            worst = max(check(models, spec, kind, seen) for spec, kind in runs)
            print(f"{config.split()[3]}: {len(runs)} models, and folded ones: logits differ by at most {worst:.1e}")
