"""Checks that PyTorch, onnxruntime and foldgrad compute equal logits for trained and folded CCTs."""
from family_models import SOME, TRAINING, ImageModels, check_all
from pytorch_cct import load_model

CONFIG = """
[model]
family = "cct"
width = 16
ffn_width = 24
heads = 4
layers = 2
initialization = "pytorch"
""" + TRAINING
# Normalizers take these kinds in turn, so each kind is tested with several normalizers.
KINDS = [["convs=2"], ["convs=1", "kernel=7", "block=cct"], ["stem=hybrid", "convs=2"], ["stem=hybrid", "convs=3"],
         ["kernel=5", "pooling=cls", "activation=relu"]]
MORE = [("ln eps=1e-4", ["weight_standardization=true"])]

if __name__ == "__main__":
    check_all(ImageModels, "pytorch_cct.py", "Compact Convolutional Transformers", CONFIG, load_model, SOME, KINDS, MORE)
