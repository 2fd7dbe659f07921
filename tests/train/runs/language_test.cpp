// Tests runs of a decoder-only Transformer that learns to predict a text of a few words.
#include <cmath>

#include "engine/contains.h"
#include "models/gpt/gpt.h"
#include "tests/train/runs/family_run.h"
#include "tests/train/runs/folded_run.h"
#include "train/reports/report.h"
#include "train/tasks/translation/sentence_piece.h"

namespace foldgrad::testing {
namespace {

using nlohmann::json;

TEST_F(LanguageRun, LearnsReportsBitsPerCharacterAndWrites) {
  ASSERT_EQ(train("run", "train.steps=60;validate.every=20;output.save_every=60;train.schedule=constant;train.lr=0.03"),
            0);
  const auto validations = events("run", "validate");
  ASSERT_EQ(validations.size(), 3u);
  const auto bits = [&](std::size_t i) { return validations[i].at("bits_per_character").get<double>(); };
  EXPECT_LT(bits(0), std::log2(15));  // a guess among 14 characters and the unknown one costs log2 15
  EXPECT_LT(bits(1), bits(0));
  EXPECT_LT(bits(2), 0.75 * std::log2(15));
  for (const json& v : validations) {
    const double loss = v.at("loss");
    EXPECT_NEAR(v.at("bits_per_character"), loss / std::log(2.0), 1e-12);  // each token is a character
    EXPECT_NEAR(v.at("perplexity"), std::exp(loss), 1e-12);
  }
  const json start = events("run", "start").at(0);
  EXPECT_EQ(start.at("score"), "bits_per_character");
  EXPECT_EQ(start.at("smaller_is_better"), true);
  EXPECT_GT(events("run", "train").back().at("tokens_per_second"), 0);
  const std::string samples = bytes("run/samples/step-00000060.txt");
  std::size_t passages = 0;
  for (std::size_t at = 0; (at = samples.find("--- after \"", at)) != samples.npos; ++at) ++passages;
  EXPECT_EQ(passages, 3u) << samples;
  EXPECT_TRUE(json::parse(bytes("run/env.json")).at("data").contains("a.txt"));
  EXPECT_TRUE(begins(
      text_, fmt::format("best of 60 steps: loss {:.4f}, perplexity ", validations[2].at("loss").get<double>())));
}

// The learning rate rises until it destroys the trained weights, so the last validation is not the best.
TEST_F(LanguageRun, TheBestCheckpointHasTheFewestBits) {
  ASSERT_EQ(train("run", "train.steps=8;train.warmup=7;train.lr=1;validate.every=1;output.save_every=3"), 0);
  const auto validations = events("run", "validate");
  const auto bits = [](const json& v) { return v.at("bits_per_character").get<double>(); };
  const json best = *std::ranges::min_element(validations, {}, bits),
             worst = *std::ranges::max_element(validations, {}, bits);
  ASSERT_LT(bits(best), bits(validations.back()));
  ASSERT_LT(bits(best), bits(worst));
  const RunSummary summary = summary_of(read_run_log(files_ / "run"));
  EXPECT_TRUE(summary.smaller_is_better);
  ASSERT_TRUE(summary.best.has_value());
  EXPECT_EQ(summary.best->step, best.at("step"));
  EXPECT_EQ(summary.best->at("bits_per_character"), bits(best));
  EXPECT_EQ(find_model_directory(files_ / "run"),
            files_ / fmt::format("run/checkpoints/step-{:08}", best.at("step").get<int>()));
}

TEST_F(LanguageRun, IsFoldedCertifiedVerifiedAndLoadedAgain) {
  for (const std::string place : {"true", "false"}) {
    ASSERT_EQ(train("run-" + place, "model.layers=2;model.pre_norm=" + place), 0);
    const std::vector<std::string> checks =
        expect_folds(files_ / ("run-" + place), {.tied = FoldOptions::Tied::untie, .rescale_stream = true});
    for (const char* check :
         {"results do not depend on other sequences in the batch", "later tokens do not change the result",
          "cached token-by-token decoding gives the same logits",
          "cached token-by-token decoding of the folded model gives the same logits"})
      EXPECT_TRUE(foldgrad::contains(checks, check)) << check;
  }
}

// The saved model is the one that was validated. `eval` runs in another process than the run, and may sum f32 numbers
// in another order.
TEST_F(LanguageRun, EvalGivesTheScoresOfTheValidationOfTheBestCheckpoint) {
  write_bytes(files_ / "text/other", "l\u00f6w in haus\nrom\n");
  ASSERT_EQ(train("run", "train.steps=8;data.test=other"), 0);
  const auto eval = [&](const std::string& arguments) { return parsed("eval @run --json --data-dir @ " + arguments); };
  const json validated = events("run", "validate").back(), valid = eval("--split valid");
  for (const char* score : {"loss", "perplexity", "bits_per_character"})
    EXPECT_NEAR(valid.at(score), validated.at(score), 1e-6) << score;
  EXPECT_EQ(valid.at("data"), "valid");
  const json other = eval("");  // without --split, eval scores data.test
  EXPECT_EQ(other.at("data"), "test");
  EXPECT_EQ(other.at("tokens"), 15);  // the model predicts all of the 16 tokens but the first
  EXPECT_EQ(other.at("characters"), 15);
  for (const char* arguments : {"--split other", "--source text/other"})
    EXPECT_EQ(eval(arguments).at("loss"), other.at("loss")) << arguments;
  EXPECT_EQ(output("eval @run --data-dir @"),
            fmt::format("data             test\ncharacters       15\ntokens           15\n"
                        "loss             {:.4f} nats per token\nperplexity       {:.4f}\n"
                        "bits             {:.4f} per character\n",
                        other.at("loss").get<double>(), other.at("perplexity").get<double>(),
                        other.at("bits_per_character").get<double>()));
  // Without a test text, the split "test" is the validation text, and the output says so.
  ASSERT_EQ(train("without", "train.steps=8"), 0);
  EXPECT_TRUE(begins(output("eval @without --data-dir @"), "data             valid (data.test is empty)\n"));
  EXPECT_EQ(parsed("eval @without --json --data-dir @").at("data"), "valid");
  expect_error("eval @run --data-dir @ --source a --reference b", 2,
               "--reference is only for translation models, got a model of family \"gpt\"");
  expect_error("eval @run --data-dir @ --hypotheses @h", 2,
               "--hypotheses is only for translation models, got a model of family \"gpt\"");
  expect_error("eval @run --data-dir @ --split no", 3, "@text/no: cannot be opened: No such file or directory");
}

// The loss is per token, but bits are per character, even if a token has several characters.
TEST_F(LanguageRun, OfBytePairsBitsAreOfCharacters) {
  if (!sentence_piece_available()) GTEST_SKIP() << "this build lacks SentencePiece";
  ASSERT_EQ(train("run", "data.tokenizer=bpe;data.vocabulary=290"), 0);
  const json scores = parsed("eval @run --json --data-dir @ --split valid");
  const double tokens = scores.at("tokens"), characters = scores.at("characters");
  EXPECT_LT(tokens, 0.6 * characters);  // some words of three to five letters are single tokens
  EXPECT_NEAR(scores.at("bits_per_character"), scores.at("loss").get<double>() * tokens / (std::log(2.0) * characters),
              1e-12);
  EXPECT_TRUE(contains(output("eval @run --data-dir @ --split valid"),
                       fmt::format("\ncharacters       {}\ntokens           {}\n", characters, tokens)));
  EXPECT_EQ(parsed("inspect @run --json").at("vocabulary"), (json{{"kind", "bpe"}, {"size", 290}}));
  EXPECT_TRUE(begins(output("generate @run --prompt 'das \u597d' --length 40"), "das \u597d"));
}

// A model whose normalizer computes statistics over the whole sequence can be trained, but cannot generate text,
// because later tokens are not known yet.
TEST_F(LanguageRun, ModelsThatMixTokensTrainButDoNotWrite) {
  ASSERT_EQ(train("run", "norm.name=instancenorm"), 0);
  EXPECT_FALSE(exists("run/samples/step-00000003.txt"));
  expect_error("generate @run", 2,
               "generation: h.0.ln_1 (instancenorm) computes statistics over all tokens of a sequence, but later "
               "tokens are not known yet");
  std::size_t skipped = 0;
  for (const json& check : parsed("verify @run --json")) {
    EXPECT_NE(check.at("outcome"), "FAILED") << check;
    skipped += check.at("measured") == "statistics over a sequence depend on later tokens";
  }
  EXPECT_EQ(skipped, 3u);
}

TEST_F(LanguageRun, GoesOnWithItsVocabularyWhateverBecomesOfTheText) {
  ASSERT_EQ(train("run"), 0);
  write_language_text(files_.path(), "stra\u00dfe\n" + few_words());
  EXPECT_THROW(train("run", "train.steps=5", "latest"), CheckpointError);
  ASSERT_EQ(train("run", "train.steps=5", "latest", /*allow_change=*/true), 0);
  EXPECT_EQ(bytes("run/checkpoints/step-00000005/vocabulary/vocabulary.json"),
            bytes("run/checkpoints/step-00000003/vocabulary/vocabulary.json"));
}

TEST_F(LanguageRun, DoesNotGoOnWithFilesThatWereNotThere) {
  ASSERT_EQ(train("run"), 0);
  write("text/b.txt", few_words());
  EXPECT_TRUE(contains(error_of<CheckpointError>([&] { train("run", "train.steps=5", "latest"); }),
                       "the data differ from the run's data: training text. Pass"));
  std::filesystem::remove(files_ / "text/b.txt");
  EXPECT_EQ(train("run", "train.steps=5", "latest"), 0);
}

TEST_F(LanguageRun, EveryKeyOfTheFamilyChangesWhatItSaysAndNothingBefore) {
  write_bytes(files_ / "text/0.txt", "das haus in\n\u00e9\n");
  write_bytes(files_ / "text/v", "haus in das\n");
  write_bytes(files_ / "text/w", "das alte in\n");
  write("other/c.txt", "x\n" + few_words());
  expect_effects(kEffectsOfBlocks);
  expect_effects({{"model.width=64", "model.heads=1", "loss 1"},  // in narrower models, attention is uniform at first
                  {"", "model.context=4", "work 1"},
                  {"", "model.pre_norm=false", "shapes"},
                  {"", "model.positions=sinusoidal", "shapes"},
                  {"model.width=64;model.positions=rotary", "model.rotary_theta=3", "loss 1"},
                  {"", "model.gated=true", "shapes"},
                  {"", "model.bias=false", "shapes"},
                  {"", "model.scaled_embedding=true", "shapes"},
                  {"", "model.depth_scaled_init=false", "loss 1"},
                  {"", "model.tied=false", "shapes"},
                  {"", "data.directory=other", "vocabulary"},
                  {"", "data.train=a.txt", "vocabulary"},
                  {"data.valid=v", "data.valid=w", "validation loss"},
                  {"", "train.label_smoothing=0.3", "loss 1"},
                  {"", "train.batch=8", "work 1"}});
  if (sentence_piece_available())
    expect_effects({{"", "data.tokenizer=bpe;data.vocabulary=290", "vocabulary"},
                    {"data.tokenizer=bpe;data.vocabulary=290", "data.vocabulary=285", "vocabulary"}});
}

TEST_F(LanguageRun, RefusesWhatCannotBe) {
  EXPECT_EQ(refusal("data.directory=absent"),
            "@absent: does not exist; data.directory = \"absent\" is below --data-dir, "
            "$FOLDGRAD_DATA or ~/.cache/foldgrad");
  EXPECT_EQ(refusal("model.patch=7"),
            "--set model.patch: model.patch is a key of model.family = \"vit\", not of \"gpt\"");
  write_bytes(files_ / "text/short", "\n");
  EXPECT_EQ(refusal("data.valid=short"),
            "data.valid = \"short\": a validation text must have at least 2 tokens, got 1");
  EXPECT_FALSE(exists(fmt::format("run{}", runs_ - 1))) << "a refused run must not create its directory";
}

}  // namespace
}  // namespace foldgrad::testing
