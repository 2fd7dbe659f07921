"""Checks that PyTorch, onnxruntime and foldgrad compute equal logits for trained and folded vision Transformers."""
import shutil

from family_models import NORMALIZERS, TRAINING, ImageModels, check_all
from model_files import model_directory
from pytorch_vit import load_model
from setting import change_config

CONFIG = """
[model]
family = "vit"
patch = 8
width = 16
ffn_width = 24
heads = 4
layers = 2
initialization = "pytorch"
""" + TRAINING
# Normalizers take these kinds in turn, so each kind is tested with several normalizers.
KINDS = [["pooling=mean"], ["pooling=cls", "qkv_bias=true"], ["pooling=mean", "pre_norm=false", "activation=relu"],
         ["pooling=cls", "activation=gelu_tanh"], ["pooling=cls", "pre_norm=false"]]
MORE = [("un warmup=1 window=3", ["weight_standardization=true", "standardization_scope=qkv_fc1"]),
        ("ln eps=1e-4", ["weight_standardization=true"]),
        ("bn alpha=0.8", ["weight_standardization=true", "standardization_scope=ffn"]),
        ("un warmup=1 window=5", ["pooling=sequence"]), ("un warmup=1 window=4", ["pooling=mean", "fc_norm=true"])]


def by_hand(models):
    """Checks a config.json that omits two keys with default values and sets the normalizer of one site explicitly."""
    model = shutil.copytree(model_directory(models.path("ln")), models.path("edited"),
                            ignore=shutil.ignore_patterns("manifest.json"))

    def edit(config):
        del config["model"]["image_mean"], config["model"]["image_std"]
        config["norm"] |= {"options": {"eps": 0.1}, "at": {"blocks.0.norm1": "ln"}}

    change_config(model, edit)
    models.compare("a config.json with defaults", model)


if __name__ == "__main__":
    check_all(ImageModels, "pytorch_vit.py", "vision Transformers", CONFIG, load_model, NORMALIZERS, KINDS, MORE,
              absent={"instancenorm"},  # it needs all tokens of an image, so it cannot be exported
              also=by_hand)
