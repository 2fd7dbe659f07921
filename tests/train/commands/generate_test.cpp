// Tests the command generate, and other commands on a language model.
#include "engine/files/safetensors.h"
#include "models/gpt/sampling.h"
#include "tests/models/gpt/tiny_gpt.h"
#include "tests/train/model_program.h"
#include "train/tasks/language/vocabulary.h"

namespace foldgrad::testing {
namespace {

using nlohmann::json;

class GenerateCommand : public ModelProgram {
 protected:
  GenerateCommand() { write("g", TextVocabulary::characters("ab \u00e9\n")); }

  // Writes a model with this vocabulary to @`name`. If `leaning` is a token, the bias of its logit is `by`.
  void write(const std::string& name, const TextVocabulary& vocabulary, std::int64_t leaning = -1, float by = 0) {
    GptConfig config = tiny_gpt("un");
    config.vocabulary = vocabulary.size(), config.tied = false, config.output_bias = true;
    gpt_ = random_gpt(config, DType::f32);
    if (leaning >= 0) gpt_->values().at("lm_head.bias").data<float>()[leaning] = by;
    vocabulary.save(files_ / "of-" + name);
    write_model_directory(files_ / name, *gpt_, files_ / "of-" + name);
  }
  std::string generated(const std::string& arguments) { return output("generate " + arguments); }

  std::unique_ptr<Gpt> gpt_;
};

TEST_F(GenerateCommand, WritesTheTokensThatAreDrawn) {
  const TextVocabulary vocabulary = TextVocabulary::load(files_ / "g/vocabulary");
  const auto want = [&](const std::string& prompt, std::int64_t count, const SamplingOptions& options) {
    std::string text = prompt;
    GptDecoder decoder(*gpt_, DType::f32);
    generate(decoder, {vocabulary.encode(prompt)}, count, options,
             [&](std::size_t, std::int64_t token) { text += vocabulary.decode({token}); });
    return text + "\n";
  };
  EXPECT_EQ(generated("@g --prompt '\u00e9 ab' --length 30 --temperature 0"),
            want("\u00e9 ab", 30, {.temperature = 0}));
  EXPECT_EQ(generated("@g --length 40 --temperature 1.5 --top-k 4 --seed 7"),
            want("\n", 40, {.temperature = 1.5, .top_k = 4, .seed = 7}));
  EXPECT_EQ(generated("@g --prompt 'ab ab ab ab'"), want("ab ab ab ab", 500, {}));  // the text exceeds the context
}

TEST_F(GenerateCommand, TakesThePromptFromAFileOrStandardInputWithoutTheNewlineAtItsEnd) {
  const std::string want = generated("@g --prompt \"$(printf 'a\\n\\nb')\" --length 9");
  for (const char* text : {"a\n\nb", "a\n\nb\n",
                           "\xef\xbb\xbf"
                           "a\r\n\r\nb\r\n"}) {
    write_bytes(files_ / "p", text);
    EXPECT_EQ(generated("@g --prompt-file @p --length 9"), want) << text;
    EXPECT_EQ(generated("@g --prompt - --length 9 <" + files_ / "p"), want) << text;
  }
  const std::string start = generated("@g --length 9");
  write_bytes(files_ / "p", "");
  for (const char* empty : {"--prompt ''", "--prompt-file @p", "--prompt - </dev/null"})
    EXPECT_EQ(generated(std::string("@g --length 9 ") + empty), start) << empty;
}

TEST_F(GenerateCommand, DrawsFromTheNucleusOnly) {
  EXPECT_EQ(generated("@g --prompt ab --length 40 --temperature 3 --top-p 0"),
            generated("@g --prompt ab --length 40 --temperature 0"));
  EXPECT_EQ(generated("@g --prompt ab --length 40 --temperature 3 --top-p 1"),
            generated("@g --prompt ab --length 40 --temperature 3"));
}

TEST_F(GenerateCommand, OfSeveralTextsTheFirstIsThatOfOneAlone) {
  const std::string all = generated("@g --prompt ab --length 30 --samples 3 --seed 2"),
                    one = generated("@g --prompt ab --length 30 --seed 2");
  EXPECT_TRUE(begins(all, "--- 1 of 3 ---\n" + one + "--- 2 of 3 ---\nab"));
  EXPECT_TRUE(contains(all, "\n--- 3 of 3 ---\nab"));
}

// Characters that span several tokens, and invalid UTF-8, must look the same whether a text is streamed or printed at
// once.
TEST_F(GenerateCommand, StreamsEveryTokenWhateverItDecodesTo) {
  write("unknown", TextVocabulary::characters("ab"), TextVocabulary::kUnknown, 99);
  EXPECT_EQ(generated("@unknown --prompt a --length 3"), "a\ufffd\ufffd\ufffd\n");
  EXPECT_EQ(generated("@unknown --prompt a --length 6"), "a\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\n");
  if (!sentence_piece_available()) GTEST_SKIP() << "this build lacks SentencePiece";
  write("pieces", TextVocabulary::bpe("das alte haus\nein haus am haus\n", 275));
  const std::string options = "@pieces --prompt 'h\u00e4us\U0001f600' --length 2000 --temperature 3";  // mostly bytes
  const std::string one = generated(options);
  EXPECT_TRUE(begins(generated(options + " --samples 2"), "--- 1 of 2 ---\n" + one + "--- 2 of 2 ---\n"));
}

TEST_F(GenerateCommand, Errors) {
  expect_error("generate @g --prompt 'ab\u00e8'", 2, "--prompt: the vocabulary has no character \"\u00e8\"");
  // The command prints unknown tokens as U+FFFD, but U+FFFD in a prompt is not an unknown token. It is rejected like
  // any other character that the vocabulary lacks.
  expect_error("generate @g --prompt '\ufffd'", 2, "--prompt: the vocabulary has no character \"\ufffd\"");
  expect_error("generate @g --prompt \"$(printf 'a\\377')\"", 2, "--prompt is not UTF-8 at byte 2");
  write_bytes(files_ / "p", "a\xff");
  expect_error("generate @g --prompt-file @p", 3, "@p: line 1 must be UTF-8, got byte 0xff at byte 2 of the line");
  expect_error("generate @g --prompt-file @none", 3, "@none: cannot be opened: No such file or directory");
  expect_error("generate @g --prompt - <@p", 3, "stdin:1: is not UTF-8 at byte 2");
  for (const char* option : {"--temperature -1", "--top-k -1", "--top-p 1.1", "--prompt a --prompt-file @p",
                             "--length 0", "--samples 0", "--dtype f64"})
    EXPECT_EQ(run(std::string("generate @g ") + option).exit_code, 2) << option;
  expect_error("generate @m", 4, "@m: must be a language model (gpt), but this is a transformer");
  expect_error("translate @g", 4, "@g: must be a model that translates (transformer), but this is a gpt");
  expect_error("generate @no", 4, "@no: there is no such file or directory");
  TextVocabulary::characters("ab").save(files_ / "g/vocabulary");
  expect_error("generate @g", 4, "@g/vocabulary: must have 6 entries according to config.json, got 3");
  write_bytes(files_ / "g/vocabulary/vocabulary.json", "{");
  expect_error("generate @g", 4, "@g/vocabulary/vocabulary.json: is not JSON at byte 2");
  std::filesystem::remove_all(files_ / "g/vocabulary");
  expect_error("generate @g", 4, "@g/vocabulary: is missing: this model reads and writes ids, not text");
  write("infinite", TextVocabulary::characters("ab"));
  for (Parameter* p : gpt_->output_parameters()) p->value.copy_from(Tensor::full(p->value.shape(), 3e38, DType::f32));
  write_model_directory(files_ / "large", *gpt_, files_ / "of-infinite");
  expect_error("generate @large --prompt a --samples 2", 5, "generate: the logits of the next token are not finite");
}

TEST_F(GenerateCommand, RunGivesTheLogitsOfIds) {
  const NamedTensors inputs{{"ids", random_ids({3, 5}, 6, 1)}};
  write_safetensors(files_ / "in", inputs);
  EXPECT_EQ(output("run @g --input @in --output @out"), files_ / "out" + ": logits f32 [3, 5, 6] on cpu\n");
  EXPECT_TRUE(identical(read_safetensors(files_ / "out").tensors.at("logits").to(DType::f64),
                        inference_logits(*gpt_, inputs, DType::f32).reshape({3, 5, 6})));
}

TEST_F(GenerateCommand, InspectShowsTheVocabulary) {
  const auto vocabulary = [&] { return parsed("inspect --json @g").at("vocabulary"); };
  EXPECT_EQ(vocabulary(), (json{{"kind", "characters"}, {"size", 6}}));
  std::filesystem::remove_all(files_ / "g/vocabulary");
  EXPECT_EQ(vocabulary(), json());
}

}  // namespace
}  // namespace foldgrad::testing
