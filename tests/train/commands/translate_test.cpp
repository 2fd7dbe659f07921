#include <cmath>
#include <tuple>

#include "tests/train/model_program.h"
#include "train/data/lines.h"
#include "train/tasks/translation/bleu.h"
#include "train/tasks/translation/translation.h"

namespace foldgrad::testing {
namespace {

using nlohmann::json;

class TranslateCommand : public ModelProgram {
 protected:
  std::string translated(const std::string& text, const std::string& options = "") {
    write_bytes(files_ / "stdin", text);
    const ProgramResult r = run("translate @m " + options + " <@stdin");
    EXPECT_EQ(r.exit_code, 0) << r.err;
    EXPECT_EQ(r.err, "");
    return r.out;
  }
};

TEST_F(TranslateCommand, KeepsOrderAndEmptyLinesInWhateverBatches) {
  const std::string all = translated(kSource);
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 5);
  EXPECT_GT(all.size(), 20u);
  for (const char* lines : {"--lines 1", "--lines 2"}) EXPECT_EQ(translated(kSource, lines), all) << lines;
  EXPECT_EQ(translated(kSource, "--max-tokens 5 --threads 1"), all);
  EXPECT_NE(translated(kSource, "--beam 1 --max-length-a 0 --max-length-b 2"), all);
  EXPECT_EQ(translated(""), "");
  const std::vector<std::string> lines = lines_of(all);
  EXPECT_EQ(translated("\ufeffein zwei"), lines[0] + "\n");
  EXPECT_EQ(translated("\nein zwei\n \t\n\nzwei\r\n\n"), "\n" + lines[0] + "\n\n\n" + lines[2] + "\n\n");
  // All of these lines are blank, but for Python's str.split() the last three contain words.
  for (const char* blank : {"\u00a0", "\u3000", "\u200b", "\ufeff \u200e", "\x01"})
    EXPECT_EQ(translated(std::string("ein zwei\n") + blank + "\n"), lines[0] + "\n\n") << blank;
}

TEST_F(TranslateCommand, NamesTheLineThatItCannotTranslate) {
  write_bytes(files_ / "bad", "ein zwei\n\nzwei \xff\nein\n");
  const ProgramResult r = run("translate @m <@bad");
  EXPECT_EQ(r.exit_code, 3);
  EXPECT_EQ(r.err, "error: stdin:3: is not UTF-8 at byte 6\n");
  EXPECT_EQ(r.out, translated("ein zwei\n\n"));
  write_bytes(files_ / "long", "ein\nein ein ein ein ein ein ein ein ein ein ein ein\n");
  expect_error("translate @m <@long", 3, "stdin:2: must have at most 12 tokens, including the end token, got 13");
  write_bytes(files_ / "word", "ein\n" + std::string(kLongestWord + 1, 'a') + "\n");
  expect_error("translate @m <@word", 3, "stdin:2: must not contain a word of more than 16384 bytes");
  std::filesystem::remove_all(files_ / "m/vocabulary");
  expect_error("translate @m <@in.de", 4, "@m/vocabulary: is missing: this model reads and writes ids, not text");
  Vocabulary::words(Dictionary::of_words({"ein"}), Dictionary::of_words({"one"}), false).save(files_ / "m/vocabulary");
  expect_error("translate @m <@in.de", 4,
               "@m/vocabulary: must have 16 and 16 entries according to config.json, got 8 and 8");
  EXPECT_EQ(run("translate @m --beam 0 <@in.de").exit_code, 2);
}

class EvalCommand : public TranslateCommand {
 protected:
  // Writes a run whose test text consists of kSource and its translations by the model.
  void write_run() {
    write("run/config.toml", "[data]\ndirectory = \"text\"\ntest = \"in\"\n");
    save_step(0, /*best=*/-1, /*with_vocabulary=*/true);
    write("text/in.de", kSource);
    write("text/in.en", translated(kSource));
  }
};

TEST_F(EvalCommand, LeavesUntranslatedWhatTranslateLeavesUntranslated) {
  const std::string source = "\nein zwei\n \u200b\nzwei\n\u00a0\n";
  write("blank.de", source);
  write("blank.en", "one\none\none\none\none\n");
  for (const std::string beam : {"--beam 1", "--beam 5"}) {
    parsed("eval @m --source @blank.de --reference @blank.en --json --hypotheses @hypotheses " + beam);
    EXPECT_EQ(bytes("hypotheses"), translated(source, beam)) << beam;
  }
  write("blank.de", "\n\n");  // no line has a word
  write("blank.en", "one\none\n");
  EXPECT_EQ(parsed("eval @m --source @blank.de --reference @blank.en --json --hypotheses @hypotheses")["sentences"], 2);
  EXPECT_EQ(bytes("hypotheses"), "\n\n");
}

TEST_F(EvalCommand, FindsItsOwnTranslationsPerfect) {
  write_bytes(files_ / "own.en", translated(kSource));
  const json all =
      parsed("eval @m --source @in.de --reference @own.en --json --hypotheses @hypotheses --max-tokens 20");
  EXPECT_EQ(all["sentences"], 5);
  EXPECT_EQ(all["exact_match"], 100);
  EXPECT_NEAR(all["chrf"], 100, 1e-9);
  EXPECT_EQ(all["sacrebleu_signature"], "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp");
  EXPECT_EQ(read_bytes(files_ / "hypotheses"), read_bytes(files_ / "own.en"));
  // The test computes the loss again, in other batches, of at most 13 tokens.
  EncodedPairs pairs;
  for (const std::string& line : lines_of(kSource)) pairs.source.push_back(vocabulary_.encode_source(line));
  for (const std::string& line : lines_of(bytes("own.en"))) pairs.target.push_back(vocabulary_.encode_target(line));
  Batches batches(pairs, {.max_tokens = 13, .multiple = 1, .shuffle = false});
  const ValidationLoss loss = validation_loss(*model_, batches);
  EXPECT_EQ(all["target_tokens"], loss.target_tokens);
  EXPECT_NEAR(all["loss"], loss.loss, 1e-5 * loss.loss);  // the f32 sums are in another order
  EXPECT_NEAR(all["perplexity"], std::exp(all["loss"].get<double>()), 1e-9);
  const std::string text = output("eval @m --source @in.de --reference @own.en");
  for (const char* part : {"\ntokenized BLEU   BLEU = ", "\nsacreBLEU        BLEU = ", "\nexact match      100.00 %\n"})
    EXPECT_TRUE(contains(text, part));
  // The command looks up relative file names in --data-dir.
  EXPECT_EQ(parsed("eval @m --data-dir @ --source in.de --reference own.en --json --max-tokens 20")["loss"],
            all["loss"]);
}

// The references are shorter than the hypotheses, so exchanging the two would change the scores.
TEST_F(EvalCommand, ScoresAreThoseOfTheHypotheses) {
  const Lines hypotheses = lines_of(translated(kSource));
  Lines references;
  for (const std::string& line : hypotheses) references.push_back(line.substr(0, line.size() / 2) + ",");
  std::string reference_text;
  for (const std::string& line : references) reference_text += line + "\n";
  write_bytes(files_ / "shorter.en", reference_text);
  const json all = parsed("eval @m --source @in.de --reference @shorter.en --json --max-tokens 20");
  const Bleu tokenized = multi_bleu(hypotheses, references), sacre = sacre_bleu(hypotheses, references);
  const ChrF characters = chrf(hypotheses, references);
  for (const auto& [key, got, exchanged] :
       {std::tuple("tokenized_bleu", tokenized.score, multi_bleu(references, hypotheses).score),
        {"sacrebleu", sacre.score, sacre_bleu(references, hypotheses).score},
        {"chrf", characters.score, chrf(references, hypotheses).score}}) {
    EXPECT_EQ(all[key], got);
    EXPECT_NE(got, exchanged) << key;
  }
  EXPECT_NE(tokenized.score, sacre.score);
  EXPECT_EQ(all["sacrebleu_signature"], sacre.signature);
  EXPECT_EQ(all["chrf_signature"], characters.signature);
}

TEST_F(EvalCommand, ReadsTheTextOfItsRun) {
  write_run();
  write("text/other.de", "ein\n");
  write("text/other.en", "one two three\n");
  for (const char* model : {"@run", "@run/checkpoints/step-00000000"}) {
    const json test = parsed(std::string("eval ") + model + " --json --data-dir @");
    EXPECT_EQ(test["sentences"], 5);
    EXPECT_EQ(test["exact_match"], 100);
  }
  const json other = parsed("eval @run --json --data-dir @ --split other");
  EXPECT_EQ(other["target_tokens"], 4);
  EXPECT_EQ(other["data"], "other");
  EXPECT_TRUE(begins(run("eval @run --data-dir @ --split other").out, "data             other\n"));
  expect_error(
      "eval @run --data-dir @ --split no", 3,
      "@text: has no no.de; data.directory = \"text\" is below --data-dir, $FOLDGRAD_DATA or ~/.cache/foldgrad");
}

// Without --data-dir, eval reads the data below the directory that the run's env.json calls data_root.
TEST_F(EvalCommand, FindsTheDataWhereTheRunHadThem) {
  write_run();
  const std::string here = fmt::format(R"({{"data_root": "{}"}})", files_.path());
  for (const auto& [environment, exit_code] : {std::pair(here, 0),
                                               {R"({"data_root": "/gone"})", 3},
                                               {R"({"data_root": 3})", 3},
                                               {"{}", 3},
                                               {"[]", 3},
                                               {"{", 3}}) {
    write("run/env.json", environment);
    EXPECT_EQ(run("eval @run").exit_code, exit_code) << environment;
    EXPECT_EQ(run("eval @run --data-dir @").exit_code, 0) << environment;
  }
  write("run/env.json", here);
  EXPECT_EQ(run("eval @run --data-dir @run").exit_code, 3);
  EXPECT_EQ(run_after("cd '" + files_ / "run" + "' && ", "eval .").exit_code, 0);
  std::filesystem::create_directory_symlink(files_ / "run/checkpoints/step-00000000", files_ / "link");
  EXPECT_EQ(run_after("cd '" + files_.path() + "' && ", "eval link").exit_code, 0);
}

TEST_F(EvalCommand, Errors) {
  write_bytes(files_ / "short.en", "one\n");
  expect_error("eval @m --source @in.de --reference @short.en", 3,
               "@short.en: must have as many lines as @in.de, which has 5, got 1");
  expect_error("eval @m --data-dir @ --source no.de --reference in.de", 3,
               "@no.de: cannot be opened: No such file or directory");
  expect_error("eval @m --source @in.de", 2, "--source and --reference must both be given, or neither");
  expect_error("eval @m", 2, "@m does not belong to a run: --source and --reference must name text files");
  expect_error("eval @m --source @in.de --reference @in.de --max-tokens 3", 3,
               "source:2: must have at most 3 tokens, including the end token, got 5");
}

}  // namespace
}  // namespace foldgrad::testing
