#!/usr/bin/env python3
"""Writes tests/golden/bpe.json: merge codes, lines of made-up words, and their segmentation by subword-nmt.
pip install subword-nmt==0.3.8;  python3 tests/train/tasks/translation/make_bpe_goldens.py"""
import io
import json
import pathlib
import random

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

SYLLABLES = ("ka lo mi ne ru sta schei tung keit aa aaa xx ü öß é 你 好 東京 ing ed un re the and . , ' -").split()
SPECIAL = ["", " ", "  two  blanks  ", " leading", "trailing \r", "a", "ü", "好", "@@", "a@@ b", "x@@y", "</w>", "a</w>",
           "</w", "aaaaaaaaa aaaa aaa aa", "xxxxxxx xxxxx", "unknown QWERTZ 123", "tab\tinside",
           "no\u00a0break", "e\u0301te\u0301", "😀😀😀 😀", "&apos;s &quot;"]

rng = random.Random(7)
words = ["".join(rng.choice(SYLLABLES) for _ in range(rng.randint(1, 4))) for _ in range(300)]


def line():
    return " ".join(words[min(int(rng.expovariate(0.02)), 299)] for _ in range(rng.randint(1, 12)))


codes = io.StringIO()
learn_bpe(io.StringIO("\n".join(line() for _ in range(1500))), codes, 400)
with_version = codes.getvalue()
# In version 0.1, the end of a word is a separate symbol. These codes are written by hand and list "l o" twice. The
# first line counts, so "l o" is merged before "o m" in the many words with "lomi".
old = "a a\nk a\nka </w>\nl o\no m\nlo </w>\nl o\nt h\nth e\nthe </w>\na </w>\nx x\nxx xx\n"
unseen = ["".join(rng.choice(SYLLABLES) for _ in range(rng.randint(1, 6))) for _ in range(200)]
lines = SPECIAL + [line() for _ in range(150)] + [" ".join(unseen[i:i + 4]) for i in range(0, 200, 4)]
result = []
for text in (with_version, old):
    bpe = BPE(io.StringIO(text))
    result.append({"codes": text, "lines": lines, "segmented": [bpe.process_line(x) for x in lines]})
path = pathlib.Path(__file__).parents[3] / "golden" / "bpe.json"
path.write_text(json.dumps(result, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
