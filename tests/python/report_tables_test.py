"""Tests the tables on the page of `foldgrad report`: their scores, marked values and headers."""
from report_page_parts import PageTest, main

PHONE = 390


def log(score, validations, **start):
    yield {"event": "start", "step": 0, "steps": 9, "norm": "un", "parameters": 1, "score": score, **start}
    for step, scores in validations.items():
        yield {"event": "validate", "step": step, **scores}


class ReportTables(PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        first = {"loss": 2.5, "perplexity": 12.1825, "bits_per_character": 3.5, "extra": 1.0}
        last = {"loss": 1.5, "perplexity": 4.4817, "bits_per_character": 2.25, "extra": 2.0}
        other = {"loss": 1.25, "perplexity": 3.4903, "bits_per_character": 1.75, "extra": 9.0}
        for name, family, keys, events in (
            ("text", "gpt", "context = 64", log("bits_per_character", {3: first, 9: last}, smaller_is_better=True)),
            ("other text", "gpt", "context = 32", log("bits_per_character", {9: other}, smaller_is_better=True)),
            ("words", "transformer", "width = 64\nheads = 4", log("bleu", {
                3: {"loss": 4.0, "perplexity": 54.6, "bleu": 0.58, "tokenized_bleu": 0.0},
                9: {"loss": 2.0, "perplexity": 7.389, "bleu": 55.51, "tokenized_bleu": 55.512}})),
            ("points", "points", "", log("misses", {
                3: {"misses": 7.0, "extra": 1.0}, 9: {"misses": 3.0, "extra": 2.0}}, smaller_is_better=True)),
            ("goals", "points", "", log("hits", {3: {"hits": 7.0}, 9: {"hits": 3.0}})),
            ("sentences", "transformer", "", log("bleu", {
                3: {"bleu": 0.58, "tokenized_bleu": 0.0}, 9: {"bleu": 30.0, "tokenized_bleu": 30.01}})),
            ("early", "transformer", "", log("bleu", {
                3: {"bleu": 0.58, "tokenized_bleu": 0.0}, 9: {"bleu": 0.75, "tokenized_bleu": 0.0}})),
        ):
            cls.write_log(name, events)
            cls.write(name + "/config.toml", f"[model]\nfamily = \"{family}\"\n{keys}\n")

    def show(self, *runs, width=1280):
        self.browser.open(self.report(*runs), width=width)

    def titles(self):
        return self.texts("figcaption strong")

    def test_bits_per_character_decide(self):
        self.show("text", "other text")
        self.assertEqual(self.titles(), ["Validation loss", "Validation perplexity", "Bits per character",
                                         "validate extra"])
        self.assertEqual(self.texts("#runs thead th")[:5],
                         ["Run", "Perplexity", "Bits per character", "extra", "Normalizer"])
        self.assertEqual(self.texts("#runs tbody td.best"), ["3.490 best", "1.7500 best"])
        self.assertEqual(self.texts("#details td.best"), ["1.5000 best", "4.482 best", "2.2500 best"])

    def test_of_an_unknown_score_that_decides_the_better_value_is_marked(self):
        for run, want in (("points", "3.0000 best"), ("goals", "7.0000 best")):
            self.show(run)
            self.assertEqual(self.texts("#details td.best"), [want])

    def test_tokenized_bleu_is_left_out_where_it_repeats_bleu(self):
        self.show("words")
        self.assertEqual(self.titles(), ["Validation loss", "Validation perplexity", "BLEU"])
        self.assertEqual(self.texts("#details thead th"), ["Step", "Loss", "Perplexity", "BLEU"])
        for run, curves in (("sentences", ["BLEU", "Tokenized BLEU"]), ("early", ["BLEU"])):  # no curve if all zeros
            self.show(run)
            self.assertEqual(self.titles(), curves)
            self.assertEqual(self.texts("#details thead th"), ["Step", "BLEU", "Tokenized BLEU"])

    def test_both_tables_of_two_families_have_their_heads(self):
        self.show("text", "words")
        self.assertEqual(self.texts("#settings thead"), ["Settingtextwords"] * 2)
        self.assertEqual(self.js("document.querySelectorAll('#settings thead .swatch').length"), 4)

    def test_a_phone_shows_the_deciding_score(self):
        for runs, title in ((("text", "other text"), "Bits per character"), (("words",), "BLEU")):
            self.show(*runs, width=PHONE)
            right = self.js("Object.fromEntries([...document.querySelectorAll('#runs thead th')].map("
                            "th => [th.textContent, th.getBoundingClientRect().right]))")
            self.assertLess(right[title], PHONE)
            self.expect_width(PHONE)


if __name__ == "__main__":
    main()
