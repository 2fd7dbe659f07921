"""Checks that PyTorch, onnxruntime and foldgrad compute equal logits for trained and folded NFNets."""
from family_models import TRAINING, ImageModels, check_all
from pytorch_nfnet import load_model

CONFIG = """
[model]
family = "nfnet"
channels = [16, 32, 48]
depths = [1, 2, 1]
group_size = 4
""" + TRAINING
PORT = ["padding=port", "activation=gelu", "gate_activation=gained", "initialization=port"]
KINDS = [[*PORT, "standardization=unbiased"], ["stem_stride=1"]]  # in turn; some feature maps have an odd size, 5 or 3

if __name__ == "__main__":
    check_all(ImageModels, "pytorch_nfnet.py", "NFNets", CONFIG, load_model, ["none", "ln", "un warmup=1 window=2"],
              KINDS, [])
