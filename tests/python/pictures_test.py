"""Tests the pictures of examples/layer_norm_maps.py."""
import unittest
import xml.dom.minidom

from setting import require

require("torch", "safetensors", "numpy")

import torch

import layer_norm_maps
from pytorch_gpt import Gpt

CONFIG = {"model": {"vocabulary": 5, "width": 8, "ffn_width": 8, "heads": 2, "layers": 2, "context": 4,
                    "pre_norm": True, "activation": "gelu", "positions": "learned", "tied": False},
          "norm": {"name": "ln", "options": {"eps": 1e-5}}}


class Pictures(unittest.TestCase):
    def test_maps_are_those_of_the_norm_without_gain_and_bias(self):
        torch.manual_seed(1)
        model = Gpt(CONFIG).double()
        for name, value in model.named_parameters():
            torch.nn.init.normal_(value, 0.5)
        found = layer_norm_maps.pairs(model, ["h.1.ln_1", "ln_f"], torch.tensor([[1, 2, 3, 4], [0, 1, 0, 1]]))
        for x, y in found.values():
            want = torch.nn.functional.layer_norm(x.view(-1, 8), (8,), eps=1e-5)
            torch.testing.assert_close(y.view(-1, 8), want)
        self.assertEqual(list(found), ["h.1.ln_1", "ln_f"])
        xml.dom.minidom.parseString(f"<svg>{layer_norm_maps.panel('ln_f', *found['ln_f'], 0)}</svg>")


if __name__ == "__main__":
    unittest.main()
