#!/usr/bin/env python3
"""Translates by greedy decoding with onnxruntime, using the files that `foldgrad export MODEL -o DIRECTORY` writes.

    echo "4 5 6" | examples/onnx_greedy.py DIRECTORY

Each input line has the ids of a sentence without the end token. Each output line has the ids of the translation.
"""
import argparse
import os
import sys

import numpy as np
import onnxruntime


class Translator:
    def __init__(self, directory, threads=0):  # 0 means one thread for each core
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = lambda name: onnxruntime.InferenceSession(os.path.join(directory, name + "_model.onnx"), options,
                                                            providers=["CPUExecutionProvider"])
        self.encoder, self.decoder = session("encoder"), session("decoder")
        self.decoder_with_past = session("decoder_with_past")
        known = self.encoder.get_modelmeta().custom_metadata_map
        self.pad, self.eos = int(known["pad"]), int(known["eos"])
        self.max_positions = int(known["max_positions"])

    def encode(self, sentences):
        """Encodes sentences, lists of ids that end with eos. Returns the inputs of the decoders by name."""
        ids = np.full((len(sentences), max(map(len, sentences))), self.pad, np.int64)
        for row, sentence in enumerate(sentences):
            ids[row, :len(sentence)] = sentence
        mask = (ids != self.pad).astype(np.int64)
        (states,) = self.encoder.run(None, {"input_ids": ids, "attention_mask": mask})
        return {"encoder_hidden_states": states, "encoder_attention_mask": mask}

    def step(self, prefix, encoded, past):
        """Returns logits [batch, vocabulary] for the token after the prefix [batch, length]. `past` is the cache, which
        the call updates; if it is None, every step computes the whole prefix again."""
        if past:
            session, given = self.decoder_with_past, {"input_ids": prefix[:, -1:], **past,
                                                      "encoder_attention_mask": encoded["encoder_attention_mask"]}
        else:
            session, given = self.decoder, {"input_ids": prefix, **encoded}
        results = {output.name: value for output, value in zip(session.get_outputs(), session.run(None, given))}
        if past is not None:
            past |= {name.replace("present", "past_key_values"): value
                     for name, value in results.items() if name.startswith("present")}
        return results["logits"][:, -1]

    def translate(self, sentences, limit=None, cached=True):
        """Translates sentences, lists of ids without eos. Returns such lists, each of 1 to `limit` ids."""
        encoded = self.encode([[*sentence, self.eos] for sentence in sentences])
        prefix = np.full((len(sentences), 1), self.eos, np.int64)
        done, past = np.zeros(len(sentences), bool), {} if cached else None
        for length in range(min(limit or self.max_positions, self.max_positions - 1)):
            logits = self.step(prefix, encoded, past)
            logits[:, self.pad] = -np.inf
            if length == 0:
                logits[:, self.eos] = -np.inf
            best = logits.argmax(1)
            done |= best == self.eos
            if done.all():
                break
            prefix = np.concatenate([prefix, np.where(done, self.pad, best)[:, None]], 1)
        return [[int(i) for i in row[1:] if i != self.pad] for row in prefix]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--limit", type=int, help="maximum number of ids in a translation")
    args = parser.parse_args()
    sentences = [[int(word) for word in line.split()] for line in sys.stdin]
    for ids in Translator(args.directory).translate(sentences, args.limit):
        print(*ids)


if __name__ == "__main__":
    main()
