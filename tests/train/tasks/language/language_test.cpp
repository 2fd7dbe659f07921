// Tests the scores of a text, the samples that a validation prints, and the checks, examples and inputs of language
// models.
#include "train/tasks/language/language.h"

#include <cmath>

#include "engine/files/safetensors.h"
#include "models/gpt/sampling.h"
#include "models/normalizers/kinds.h"
#include "tests/harness/file_test.h"
#include "tests/models/gpt/tiny_gpt.h"

namespace foldgrad::testing {
namespace {

const std::string kSmallText = "a bad cab\nded b\u00e9d\ncafe\n";  // 23 characters, 9 of them distinct

GptConfig config_for(const TextVocabulary& vocabulary) {
  GptConfig config = tiny_gpt();
  config.vocabulary = vocabulary.size();
  return config;
}

class LanguageScoring : public FileTest {
 protected:
  const TextVocabulary vocabulary_ = TextVocabulary::characters(kSmallText);
  const Ids ids_ = vocabulary_.encode(kSmallText);
};

// If all weights are 0, every token is equally likely.
TEST_F(LanguageScoring, LM_1_LM_2_LM_3_OfAGuessAmongAllTokens) {
  std::vector<TextVocabulary> all{vocabulary_};
  if (sentence_piece_available()) all.push_back(TextVocabulary::bpe(kSmallText, 275));
  for (const TextVocabulary& v : all) {
    Gpt model(config_for(v), std::nullopt);
    const LanguageScores s = score_text(model, v, kSmallText, 2);
    const auto V = double(v.size());
    EXPECT_EQ(s.tokens, std::int64_t(v.encode(kSmallText).size()) - 1);
    EXPECT_EQ(s.characters, 22);
    EXPECT_NEAR(s.loss, std::log(V), 1e-6);  // the logits are f32
    EXPECT_NEAR(s.perplexity, V, 1e-5 * V);
    EXPECT_NEAR(s.bits_per_character, std::log2(V) * double(s.tokens) / 22, 1e-5);
  }
}

// The model predicts each token only from the earlier tokens of its window of 6. The tolerance allows for f32 logits.
TEST_F(LanguageScoring, LM_1_EveryWindowBeginsWithoutWhatStandsBeforeIt) {
  const auto model = random_gpt(config_for(vocabulary_), DType::f32);
  double want = 0;
  for (std::size_t target = 1; target < ids_.size(); ++target) {
    const std::size_t begin = (target - 1) / 6 * 6;
    const std::vector<double> z = following(*model, {Ids(&ids_[begin], &ids_[target])}).values<double>();
    double sum = 0;
    for (const double logit : z) sum += std::exp(logit);
    want += (std::log(sum) - z[std::size_t(ids_[target])]) / double(ids_.size() - 1);
  }
  for (const std::int64_t batch : {1, 2, 100})
    EXPECT_NEAR(score_text(*model, vocabulary_, kSmallText, batch).loss, want, 1e-5) << batch;
}

TEST_F(LanguageScoring, FewerBitsAreBetter) {
  const Validation v = LanguageScores{.loss = 1, .perplexity = 2.71828, .bits_per_character = 1.4427}.validation();
  EXPECT_EQ(v.loss, 1);
  EXPECT_EQ(v.deciding, -1.4427);
  using Scores = std::vector<std::pair<std::string, double>>;
  EXPECT_EQ(v.scores, (Scores{{"loss", 1}, {"perplexity", 2.71828}, {"bits_per_character", 1.4427}}));
  EXPECT_EQ(v.text, "loss 1.0000, perplexity 2.718, 1.4427 bits per character");
  EXPECT_EQ(v.short_text, "loss 1.0000  ppl 2.72  1.443 bits/character");
}

// With a context of 8, each sample continues a passage of two tokens. Of the text's 23 tokens, the passages begin at
// tokens 0, 7 and 14.
TEST_F(LanguageScoring, SamplesGoOnFromThreePassages) {
  GptConfig config = config_for(vocabulary_);
  config.context = 8;
  const auto model = random_gpt(config, DType::f32);
  std::vector<Ids> written(3);
  GptDecoder decoder(*model, DType::f32);
  const std::vector<Ids> passages{vocabulary_.encode("a "), vocabulary_.encode("ab"), vocabulary_.encode("b\u00e9")};
  ASSERT_TRUE(generate(decoder, passages, 300, {}, [&](std::size_t s, std::int64_t t) { written[s].push_back(t); }));
  EXPECT_EQ(
      written_samples(*model, vocabulary_, ids_),
      fmt::format("--- after \"a \":\n{}\n\n--- after \"ab\":\n{}\n\n--- after \"b\u00e9\":\n{}\n\n",
                  vocabulary_.decode(written[0]), vocabulary_.decode(written[1]), vocabulary_.decode(written[2])));
  EXPECT_TRUE(written_samples(*model, vocabulary_, {1, 2}).starts_with("--- after \""));  // a text of only 2 tokens
  config.normalizer = "instancenorm";
  EXPECT_EQ(written_samples(*random_gpt(config, DType::f32), vocabulary_, ids_), "");
}

// A faulty normalizer. To each row it adds all rows of the same sequence, or all rows at the same position in any
// sequence.
template <bool kOfSequence>
class Leak final : public Normalizer {
 public:
  explicit Leak(const NormalizerSite& s) : Normalizer(s) {}
  std::vector<Parameter*> parameters() override { return {}; }

 private:
  Var forward(const Var& x, const NormContext& context) override {
    const Tensor in = x.value(), y = in.clone();
    const std::int64_t rows = context.samples->rows(), T = rows / context.samples->count(), C = channels();
    for (std::int64_t to = 0; to < rows; ++to)
      for (std::int64_t from = 0; from < rows; ++from)
        for (std::int64_t c = 0; c < C && (kOfSequence ? from / T == to / T : from % T == to % T); ++c)
          y.data<double>()[to * C + c] += in.data<double>()[from * C + c];
    return x.tape().constant(y);
  }
};

TEST(LanguageChecks, FindWhatAModelSeesThatItShouldNotAndAFoldedModelThatIsAnother) {
  register_normalizer({{"leak_in_sequence", Inference::online, "for a test", {}}, make<Leak<true>>});
  register_normalizer({{"leak_across", Inference::online, "for a test", {}}, make<Leak<false>>});
  using Names = std::vector<std::string>;
  const auto failed = [](const std::string& normalizer, double change) {
    const auto model = random_gpt(tiny_gpt(normalizer)), folded = random_gpt(tiny_gpt(normalizer));
    folded->values().at("h.1.mlp.c_fc.bias").data<double>()[3] += change;
    Names names;
    for (const CheckResult& r : kLanguage.checks(*model, *folded, model->random_inputs(1)))
      if (r.outcome == CheckResult::Outcome::failed) names.push_back(r.name);
    return names;
  };
  const std::string steps = "cached token-by-token decoding gives the same logits",
                    folded = "cached token-by-token decoding of the folded model gives the same logits";
  EXPECT_EQ(failed("ln", 0), Names());
  EXPECT_EQ(failed("ln", 1e-6), Names{folded});
  EXPECT_EQ(failed("leak_in_sequence", 0), (Names{"later tokens do not change the result", steps, folded}));
  EXPECT_EQ(failed("leak_across", 0), Names{"results do not depend on other sequences in the batch"});
}

class LanguageModelFiles : public LanguageScoring {
 protected:
  LanguageModelFiles() { vocabulary_.save(files_ / "vocabulary"); }

  Gpt model_{config_for(vocabulary_), 1};
};

TEST_F(LanguageModelFiles, ExamplesAreWindows) {
  write_bytes(files_ / "text", kSmallText + "\n");  // 24 characters
  const ExampleSet examples =
      examples_of(model_, {.source = "text", .data_directory = files_.path(), .directory = files_.path()});
  EXPECT_EQ(examples.size, 3);  // windows of 6 characters; the last target follows its window
  const NamedTensors inputs = examples.inputs({2, 0});
  const auto window = [&](std::int64_t first) { return Ids(ids_.begin() + first, ids_.begin() + first + 6); };
  EXPECT_EQ(inputs.at("ids").slice(0, 1).values<std::int64_t>(), window(12));
  EXPECT_EQ(inputs.at("ids").slice(1, 2).values<std::int64_t>(), window(0));
  EXPECT_EQ(inputs.at("target").slice(0, 1).values<std::int64_t>(), window(13));
}

TEST_F(LanguageModelFiles, InputsAreIdsOfTheModel) {
  const auto read = [&](const NamedTensors& tensors) {
    write_safetensors(files_ / "in", tensors);
    return error_of<std::exception>([&] { kLanguage.read_inputs(model_, files_ / "in"); });
  };
  const Tensor ids = Tensor::of<std::int64_t>({2, 2}, {0, 1, 2, 9});
  for (const DType dtype : {DType::i64, DType::i32}) EXPECT_EQ(read({{"ids", ids.to(dtype)}}), "no error");
  const std::string must = "@in: ids must be i64 or i32 [sequences, tokens] of at most 6 tokens, got ";
  EXPECT_EQ(read({{"ids", ids.to(DType::f32)}}), must + "f32 [2, 2] on cpu");
  EXPECT_EQ(read({{"ids", ids.reshape({4})}}), must + "i64 [4] on cpu");
  EXPECT_EQ(read({{"ids", Tensor::zeros({0, 2}, DType::i64)}}), must + "i64 [0, 2] on cpu");
  EXPECT_EQ(read({{"ids", Tensor::zeros({1, 7}, DType::i64)}}), must + "i64 [1, 7] on cpu");
  for (const std::int64_t id : {10, -1})
    EXPECT_EQ(read({{"ids", Tensor::of<std::int64_t>({2, 2}, {0, 1, id, 1})}}),
              fmt::format("@in: ids[1, 0] must be an id in [0, 10), got {}", id));
  for (const NamedTensors& wrong : {NamedTensors{}, {{"id", ids}}, {{"ids", ids}, {"target", ids}}})
    EXPECT_EQ(read(wrong), "@in: must have exactly one tensor, ids, i64 [sequences, tokens]");
}

}  // namespace
}  // namespace foldgrad::testing
