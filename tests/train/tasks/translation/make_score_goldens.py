#!/usr/bin/env python3
"""Writes tests/golden/scores.json: the scores that sacreBLEU and multi-bleu.perl compute for small sets of lines.

    pip install sacrebleu==2.4.3
    python3 tests/train/tasks/translation/make_score_goldens.py multi-bleu.perl     # scripts/generic/multi-bleu.perl of Moses, 31473d8

multi-bleu.perl prints its score with only two decimals. multi_bleu() below computes the exact score. It also formats
a line, which must equal the line of multi-bleu.perl."""
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile
from collections import Counter

from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

WORDS = ("the a cat dog sat on under mat , . ! ? ( ) \" ' &apos;s &quot; &amp; co 3.14 1,000 10-12 well-known "
         "it's U.S. $5 50% #tag e.g. ... -- Straße Äpfel ÉCOLE naïve ΣΟΦΟΣ İstanbul 你好 世界。 東京 テスト 안녕 😀 "
         "<b> a/b x_y [1] {2} `q` ~ ^ = + * | \\ <skipped> -").split()

BY_HAND = [
    (["the cat sat on the mat"], ["the cat sat on the mat"]),
    (["the cat"], ["the cat sat"]),
    (["the"], ["the"]),
    (["the the the the"], ["the cat sat"]),
    (["a b c"], ["a b c"]),
    (["a b c d"], ["a b c d"]),
    ([""], ["the cat"]),
    (["the cat"], [""]),
    ([""], [""]),
    (["", "the cat sat on the mat"], ["", "the cat sat on a mat"]),
    (["", "the cat sat on the mat"], ["a dog", "the cat sat on a mat"]),
    (["the cat sat on the mat", ""], ["", ""]),
    (["x y z"], ["a b c"]),
    (['He said "no" , twice .'], ['He said "no", twice.']),
    (["&quot;quoted&quot; &amp; &lt;b&gt;"], ['"quoted" & <b>']),
    (["It costs 1,000.50 dollars, i.e. 10-12%."], ["It costs 1,000.5 dollars, i.e. 10 - 12 %."]),
    (["a.,b ..c ,,, 1.,2 .5 5."], ["a . , b . . c , , , 1 . , 2 .5 5 ."]),
    (["你好世界。"], ["你好,世界。"]),
    (["東京 は 大きい 都市 です 。"], ["東京 は とても 大きい 都市 です 。"]),
    (["안녕 하세요 여러분 반갑습니다 친구"], ["안녕 하세요 여러분 반가워요 친구"]),
    (["no\u00a0break\u3000wide\u2009thin space words here"], ["no break wide thin space words here"]),
    (["THE CAT SAT ON THE MAT"], ["the cat sat on the mat"]),
    (["ΟΔΟΣ ΣΟΦΟΣ Σ ΑΣ. ΑΣ'Α İ ẞ ǅ"], ["οδος σοφος σ ας. ασ'α i̇ ß ǆ"]),
    (["e\u0301te\u0301 de\u0301ja\u0300 vu encore"], ["\u00e9t\u00e9 d\u00e9j\u00e0 vu encore"]),
    (["  leading and   trailing blanks  \t"], ["leading and trailing blanks"]),
    (["a <skipped> b c d e"], ["a b c d e"]),
    (["😀 😀 😀 😀 smile"], ["😀 😀 smile 😀"]),
    (["the cat sat on the mat"] * 3, ["the cat sat on the mat", "a cat sat on a mat", "dogs"]),
]


def random_cases():
    rng = random.Random(20)
    for case in range(44):
        refs = [[rng.choice(WORDS) for _ in range(rng.choice((0, 1, 2, 3, 5, 9, 14)))] for _ in range(rng.randint(1, 5))]
        hyps = []
        for ref in refs:
            hyp = [w for w in ref if rng.random() > 0.1]
            hyp = [w if rng.random() > 0.1 else rng.choice(WORDS) for w in hyp]
            if rng.random() < 0.2:
                hyp.append(rng.choice(WORDS))
            hyps.append(hyp)
        glue = "" if case % 11 == 0 else " "
        yield [glue.join(h) for h in hyps], [" ".join(r) for r in refs]


def multi_bleu(hyps, refs):
    """Returns the exact score, and the line that multi-bleu.perl would print if it did not fail for hyp_len = 0."""
    correct, total, hyp_len, ref_len = [0] * 4, [0] * 4, 0, 0
    for hyp, ref in zip(hyps, refs):
        # bytes.split() splits only at ASCII white space, as Perl does
        h, r = hyp.encode().split(), ref.encode().split()
        hyp_len, ref_len = hyp_len + len(h), ref_len + len(r)
        for n in range(1, 5):
            hc = Counter(tuple(h[i:i + n]) for i in range(len(h) - n + 1))
            rc = Counter(tuple(r[i:i + n]) for i in range(len(r) - n + 1))
            total[n - 1] += sum(hc.values())
            correct[n - 1] += sum((hc & rc).values())
    if ref_len == 0:
        return 0.0, "BLEU = 0, 0/0/0/0 (BP=0, ratio=0, hyp_len=0, ref_len=0)"
    p = [c / t if t else 0 for c, t in zip(correct, total)]
    bp = 1 if hyp_len >= ref_len else math.exp(1 - ref_len / hyp_len) if hyp_len else 0
    bleu = bp * math.exp(sum(math.log(x) if x else -9999999999 for x in p) / 4)
    return 100 * bleu, "BLEU = %.2f, %.1f/%.1f/%.1f/%.1f (BP=%.3f, ratio=%.3f, hyp_len=%d, ref_len=%d)" % (
        100 * bleu, *(100 * x for x in p), bp, hyp_len / ref_len, hyp_len, ref_len)


def by_original(hyps, refs):
    """Returns the line of multi-bleu.perl, or None if it divides by hyp_len = 0."""
    with tempfile.NamedTemporaryFile("w", suffix=".ref") as file:
        file.writelines(line + "\n" for line in refs)
        file.flush()
        run = subprocess.run(["perl", sys.argv[1], file.name], input="".join(line + "\n" for line in hyps),
                             capture_output=True, text=True)
    return run.stdout.strip() or None


def without_version(metric):
    return str(metric.get_signature()).split("|version:")[0]


def golden(hyps, refs):
    result = {"hypotheses": hyps, "references": refs, "tokens_13a": [Tokenizer13a()(h.rstrip()) for h in hyps]}
    score, text = multi_bleu(hyps, refs)
    original = by_original(hyps, refs)
    assert original in (text, None), f"{original} is not {text}"
    result["multi_bleu"] = {"score": score, "text": text, "by_original": original is not None}
    metrics = {"sacre_bleu": BLEU(force=True), "chrf": CHRF()}
    for name, metric in metrics.items():
        s = metric.corpus_score(hyps, [refs])
        result[name] = {"score": s.score, "text": str(s), "signature": without_version(metric)}
        if name != "chrf":
            result[name]["precisions"] = s.precisions
    return result


cases = [golden(h, r) for h, r in [*BY_HAND, *random_cases()]]
path = pathlib.Path(__file__).parents[2] / "golden" / "scores.json"
path.write_text(json.dumps(cases, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
