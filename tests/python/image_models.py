"""What tests of models that classify images share; family_models.py has the rest."""
import os

from family_models import Models
from setting import logits_of

import numpy as np
import torch

TRAINING = """
[train]
steps = 4
batch = 8
warmup = 1
lr = 0.02
[validate]
every = 4
[output]
save_every = 4
"""


class ImageModels(Models):
    def write_data(self):
        """Random records of CIFAR-10: eight in each file."""
        os.mkdir(self.path("cifar-10-batches-bin"))
        rng = np.random.default_rng(1)
        for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
            records = rng.integers(0, 256, (8, 3073), dtype=np.uint8)
            records[:, 0] = rng.integers(0, 10, 8)
            records.tofile(self.path(os.path.join("cifar-10-batches-bin", name)))

    def inputs(self):
        return {"images": torch.randint(0, 256, (5, 32, 32, 3), dtype=torch.uint8)}

    def others(self, model, network, session, want):
        pixels = network.normalized(self.given["images"])
        yield "of normalized images", logits_of(model, images=pixels), want
        pixels = pixels.permute(0, 3, 1, 2).contiguous().numpy()
        yield "onnxruntime", torch.from_numpy(session.run(["logits"], {"pixel_values": pixels})[0]), want
