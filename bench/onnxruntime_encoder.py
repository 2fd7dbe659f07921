#!/usr/bin/env python3
"""Times the encoder of inference_bench in onnxruntime, with the same sizes and weights.

    inference_bench --save=DIR/ln
    foldgrad export DIR/ln --to onnx -o EXPORTED
    python onnxruntime_encoder.py DIR/ln [--exported EXPORTED] [--threads 2] [--rounds 20] [--cpu-time]

onnxruntime runs PyTorch's export of the model in pytorch_inference.py, and our own file, after a check that both give
PyTorch's results. Prints one JSON object: NAME/PROGRAM -> seconds of every round, and the setup under "context".
"""
import json
import os

import numpy
import onnxruntime
import torch

from pytorch_inference import LENGTH, argument_parser, fused_encoder, random_ids, seconds_of
from pytorch_measure import exported, onnx_session


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--exported", help="directory with our encoder_model.onnx of the same model, if there is one")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    encoder = fused_encoder(arguments.model)
    result = {"context": {"onnxruntime": onnxruntime.__version__, "threads": arguments.threads}}
    path = os.path.join(arguments.exported or "", "encoder_model.onnx")
    ours = onnx_session(path, arguments.threads) if os.path.exists(path) else None
    for batch in (32, 1):
        ids = random_ids(encoder, batch)
        with torch.no_grad():
            want = encoder(ids).numpy()
        given = {"input_ids": ids.numpy(), "attention_mask": numpy.ones(ids.shape, numpy.int64)}
        runs = {"onnxruntime": (exported(encoder, "input_ids", ids, arguments.threads), {"input_ids": ids.numpy()})}
        if ours:
            runs["onnxruntime-ours"] = ours, given
        for name, (session, given) in runs.items():
            error = numpy.abs(session.run(None, given)[0] - want).max() / numpy.abs(want).max()
            assert error < 1e-5, f"{name}: the results differ from PyTorch's by {error}"
            result[f"encoder/{batch}x{LENGTH}/f32/{name}"] = seconds_of(lambda: session.run(None, given), arguments)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
