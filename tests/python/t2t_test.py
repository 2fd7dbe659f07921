"""Checks that PyTorch, onnxruntime and foldgrad compute equal logits for trained and folded T2T-ViTs."""
from family_models import SOME, TRAINING, ImageModels, check_all
from pytorch_t2t import load_model

CONFIG = """
[model]
family = "t2t"
kernels = [4, 3, 3]
strides = [4, 2, 1]
paddings = [1, 1, 1]
token_width = 8
width = 16
ffn_width = 24
heads = 4
layers = 2
""" + TRAINING
# Normalizers take these kinds in turn, so each kind is tested with several normalizers.
KINDS = [[], ["token_attention=softmax"], ["pooling=mean", "activation=relu"],
         ["token_attention=softmax", "pooling=sequence", "strides=[3, 3, 1]"]]

if __name__ == "__main__":
    check_all(ImageModels, "pytorch_t2t.py", "Tokens-to-Token vision Transformers", CONFIG, load_model, SOME, KINDS, [])
