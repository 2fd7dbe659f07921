"""The pictures of examples/pnac_density.py and examples/layer_norm_maps.py."""
import unittest
import xml.dom.minidom

from setting import require

require("torch", "safetensors", "numpy")

import torch

import layer_norm_maps
import pnac_density
from pytorch_gpt import Gpt

SITES = [{"site": "a", "q begin": {"mean": 45, "values": [40, 50]}, "noise begin": {"mean": 90, "values": [90]}},
         {"site": "b", "q begin": {"mean": 50, "values": [50, 50]}, "noise begin": {"mean": 90, "values": [90]}}]
CONFIG = {"model": {"vocabulary": 5, "width": 8, "ffn_width": 8, "heads": 2, "layers": 2, "context": 4,
                    "pre_norm": True, "activation": "gelu", "positions": "learned", "tied": False},
          "norm": {"name": "ln", "options": {"eps": 1e-5}}}


class Pictures(unittest.TestCase):
    def test_densities_are_of_all_normalizers_together(self):
        density = pnac_density.densities(SITES)["q begin"]
        self.assertAlmostEqual(sum(density), 1, places=6)
        self.assertAlmostEqual(density[50], 3 * density[40], places=5)  # three of four values; 5 deviations apart
        picture = xml.dom.minidom.parseString(pnac_density.drawn({"sites": SITES}))
        self.assertEqual([t.firstChild.data for t in picture.getElementsByTagName("text")][:2],
                         ["q begin", "noise begin"])

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
