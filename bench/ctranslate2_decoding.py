#!/usr/bin/env python3
"""Times the decoding of inference_bench in CTranslate2, with the same sizes, lengths and names.

    python ctranslate2_decoding.py [--threads 2] [--rounds 3] [--cpu-time]

The model is a pre-norm Transformer with random weights, which is forced to generate translations of 25 tokens. Our 25
tokens include the end token, so both programs take 25 steps. Prints one JSON object: name -> seconds of every round,
and the setup under "context".
"""
import argparse
import json
import tempfile
import time

import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerSpec

WIDTH, FFN, HEADS, LAYERS, SOURCE, TARGET = 512, 1024, 4, 6, 8848, 6632
SENTENCES, LENGTH = 64, 25
SPECIAL = ["<blank>", "<s>", "</s>", "<unk>"]


def random_model(directory):
    rng = np.random.default_rng(0)
    random = lambda deviation, *shape: rng.normal(0, deviation, shape).astype("f4")

    def linear(spec, out, inputs):
        spec.weight, spec.bias = random(inputs**-0.5, out, inputs), np.zeros(out, "f4")

    def norm(spec):
        spec.gamma, spec.beta = np.ones(WIDTH, "f4"), np.zeros(WIDTH, "f4")

    spec = TransformerSpec.from_config((LAYERS, LAYERS), HEADS, pre_norm=True)  # relu
    spec.encoder.embeddings[0].weight = random(WIDTH**-0.5, SOURCE, WIDTH)
    spec.decoder.embeddings.weight = random(WIDTH**-0.5, TARGET, WIDTH)
    for side in (spec.encoder, spec.decoder):
        side.position_encodings.encodings = random(0.1, 512, WIDTH)
        norm(side.layer_norm)
        for layer in side.layer:
            norm(layer.self_attention.layer_norm)
            linear(layer.self_attention.linear[0], 3 * WIDTH, WIDTH)
            linear(layer.self_attention.linear[1], WIDTH, WIDTH)
            if side is spec.decoder:
                norm(layer.attention.layer_norm)
                linear(layer.attention.linear[0], WIDTH, WIDTH)
                linear(layer.attention.linear[1], 2 * WIDTH, WIDTH)
                linear(layer.attention.linear[2], WIDTH, WIDTH)
            norm(layer.ffn.layer_norm)
            linear(layer.ffn.linear_0, FFN, WIDTH)
            linear(layer.ffn.linear_1, WIDTH, FFN)
    linear(spec.decoder.projection, TARGET, WIDTH)
    spec.register_source_vocabulary(SPECIAL + [f"s{i}" for i in range(SOURCE - 4)])
    spec.register_target_vocabulary(SPECIAL + [f"t{i}" for i in range(TARGET - 4)])
    spec.validate()
    spec.save(directory)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="(default: 2)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each benchmark (default: 3)")
    parser.add_argument("--cpu-time", action="store_true", help="CPU time of all threads instead of wall-clock time")
    arguments = parser.parse_args()
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    rng = np.random.default_rng(1)
    result = {"context": {"ctranslate2": ctranslate2.__version__, "threads": arguments.threads}}
    with tempfile.TemporaryDirectory() as directory:
        random_model(directory)
        for dtype, kind in (("f32", "float32"), ("int8", "int8"), ("bf16", "bfloat16")):
            if kind not in ctranslate2.get_supported_compute_types("cpu"):
                continue
            translator = ctranslate2.Translator(directory, "cpu", compute_type=kind, intra_threads=arguments.threads)
            for name, sentences, beam in (("greedy/64x25", SENTENCES, 1), ("greedy/1x25", 1, 1),
                                          ("beam5/64x25", SENTENCES, 5), ("beam5/1x25", 1, 5)):
                source = [[f"s{i}" for i in rng.integers(0, SOURCE - 4, LENGTH)] for _ in range(sentences)]
                seconds = []
                for _ in range(arguments.rounds + 1):
                    start = clock()
                    found = translator.translate_batch(source, beam_size=beam, max_batch_size=sentences,
                                                       min_decoding_length=LENGTH, max_decoding_length=LENGTH)
                    seconds.append(clock() - start)
                assert all(len(one.hypotheses[0]) == LENGTH for one in found)
                result[f"{name}/{dtype}"] = seconds[1:]  # the first round is a warm-up
    print(json.dumps(result))


if __name__ == "__main__":
    main()
