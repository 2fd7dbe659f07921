"""PyTorch and onnxruntime give the logits of foldgrad for vision Transformers that it has trained, and for folded
ones."""
from family_models import NORMALIZERS, TRAINING, ImageModels, check_all
from pytorch_vit import load_model

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
# One after the other, so that each normalizer has one and all kinds of models have several.
KINDS = [["pooling=mean"], ["pooling=cls", "qkv_bias=true"], ["pooling=mean", "pre_norm=false", "activation=relu"],
         ["pooling=cls", "activation=gelu_tanh"], ["pooling=cls", "pre_norm=false"]]
MORE = [("un warmup=1 window=3", ["weight_standardization=true", "standardization_scope=qkv_fc1"]),
        ("ln eps=1e-4", ["weight_standardization=true"]),
        ("un warmup=1 window=5", ["pooling=sequence"])]

if __name__ == "__main__":
    check_all(ImageModels, "pytorch_vit.py", "vision Transformers", CONFIG, load_model, NORMALIZERS, KINDS, MORE,
              absent={"instancenorm"})  # which needs all tokens of an image: there are no nodes for it
