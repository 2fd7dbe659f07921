// Tests that NaN and infinity are rejected when a model is loaded or written, that errors name the operation that
// computes them first, and that `inspect` and `verify` report them.
#include <limits>
#include <set>

#include "engine/files/safetensors.h"
#include "tests/train/checkpoints/contents.h"
#include "tests/train/model_program.h"
#include "tests/train/padded_inputs.h"
#include "train/checks/checkpoint_error.h"
#include "train/runs/resume.h"

namespace foldgrad::testing {
namespace {

struct Command {
  std::string arguments, output;  // `output` is a file that must not exist after a rejection
  bool may_look = false;          // the command has the option --allow-non-finite
};

const std::vector<Command> kCommandsOfModels{
    {"run @m --input @in --output @out", "out", true},
    {"eval @m --source @in.de --reference @in.de --hypotheses @hypotheses", "hypotheses", true},
    {"translate @m <@in.de", "", true},
    {"fold @m -o @out", "out"},
    {"graph @m --dot @out", "out"},
    {"export @m -o @out", "out"},
    {"average @m @m -o @out", "out"},
    {"recalibrate @m -o @out --source @in.de --reference @in.de", "out"},
};

class NonFiniteNumbers : public ModelProgram {
 protected:
  NonFiniteNumbers() { write_safetensors(files_ / "in", padded_inputs()); }

  // Sets one element of a tensor in one of the model's files, or all elements if `element` is -1.
  void spoil(const std::string& file, const std::string& name, double value, std::int64_t element = -1) {
    auto tensors = read_safetensors(files_ / file).tensors;
    Tensor& t = tensors.at(name);
    for (std::int64_t i = 0; i < t.size(); ++i)
      if (element < 0 || i == element) t.data<float>()[i] = float(value);
    write_safetensors(files_ / file, tensors);
  }
  void expect_nothing_written(const Command& command) {
    EXPECT_TRUE(command.output.empty() || !std::filesystem::exists(files_ / command.output)) << command.arguments;
  }
  void expect_diverged(const Command& command, const std::string& start) {
    SCOPED_TRACE(command.arguments);
    expect_failure(run(command.arguments), 5, "error: " + start);
    expect_nothing_written(command);
  }
};

TEST_F(NonFiniteNumbers, AreRefusedByEveryCommandThatLoadsAModel) {
  spoil("m/model.safetensors", "encoder.layers.0.fc1.weight", NAN, 2 * 8 + 5);
  const std::string said = "@m/model.safetensors: tensor encoder.layers.0.fc1.weight must be finite, got nan at [2, 5]";
  for (const Command& command : kCommandsOfModels) {
    expect_error(command.arguments, 4, said);
    expect_nothing_written(command);
  }
  for (const char* arguments : {"classify @m @in.de", "generate @m"}) expect_error(arguments, 4, said);
  spoil("m/model.safetensors", "encoder.layers.0.fc1.weight", 0);
  spoil("m/norm_state.safetensors", "encoder.layer_norm.run_var", INFINITY, 3);
  expect_error(kCommandsOfModels[0].arguments, 4,
               "@m/norm_state.safetensors: tensor encoder.layer_norm.run_var must be finite, got inf at [3]");
}

// The iteration counter selects the window entry that the next iteration overwrites, so an invalid counter could select
// memory outside the window.
TEST_F(NonFiniteNumbers, ACounterOutsideItsRangeIsRefusedLikewise) {
  auto state = read_safetensors(files_ / "m/norm_state.safetensors").tensors;
  for (const std::int64_t count : {std::numeric_limits<std::int64_t>::max(), std::int64_t(-1)}) {
    state["encoder.layer_norm.iters"] = Tensor::of<std::int64_t>({}, {count});
    write_safetensors(files_ / "m/norm_state.safetensors", state);
    expect_error(
        "verify @m", 4,
        fmt::format(
            "@m/norm_state.safetensors: tensor encoder.layer_norm.iters must contain counts in [0, 2^53], got {}",
            count));
  }
}

TEST_F(NonFiniteNumbers, AreTakenWhereTheyAreAllowed) {
  spoil("m/model.safetensors", "encoder.layers.0.fc1.weight", NAN, 2 * 8 + 5);
  for (const Command& command : kCommandsOfModels) {
    const std::size_t options = command.arguments.find("@m") + 2;
    const ProgramResult r = run(std::string(command.arguments).insert(options, " --allow-non-finite"));
    EXPECT_EQ(r.exit_code, command.may_look ? 0 : 2) << command.arguments << r.err;
  }
  EXPECT_TRUE(std::isnan(read_safetensors(files_ / "out").tensors.at("logits").data<float>()[0]));
  EXPECT_EQ(run("translate @m --allow-non-finite <@in.de").out, "\n\n\n\n\n");
}

TEST_F(NonFiniteNumbers, AreShownByInspectAndFoundByVerify) {
  spoil("m/model.safetensors", "encoder.layers.0.fc1.weight", NAN, 2 * 8 + 5);
  spoil("m/norm_state.safetensors", "encoder.layer_norm.run_var", -INFINITY, 3);
  using nlohmann::json;
  ProgramResult r = run("inspect --json @m");
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(json::parse(r.out).at("not_finite"),
            (json{"encoder.layers.0.fc1.weight: nan at [2, 5]", "encoder.layer_norm.run_var: -inf at [3]"}));
  EXPECT_TRUE(contains(run("inspect @m").out, "encoder.layers.0.fc1.weight: nan at [2, 5]"));
  EXPECT_TRUE(contains(run("inspect @m/model.safetensors").out, "encoder.layers.0.fc1.weight: nan at [2, 5]\n"));
  r = run("verify @m");
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_EQ(r.out, "FAILED   all numbers are finite: encoder.layers.0.fc1.weight: nan at [2, 5]\n");
}

// Every command whose help mentions a model directory must be tested in this file. `inspect` and `verify` are tested
// above. `classify` and `generate` need an image model and a language model; their own test files check results that
// are not finite.
TEST_F(NonFiniteNumbers, AreTestedWithAllCommandsThatLoadAModel) {
  std::set<std::string> tested{"inspect", "verify", "classify", "generate"}, loading;
  for (const Command& command : kCommandsOfModels)
    tested.insert(command.arguments.substr(0, command.arguments.find(' ')));
  for (const std::string& name : commands_of_the_program())
    if (contains(run(name + " --help").out, "odel director")) loading.insert(name);
  EXPECT_EQ(loading, tested);
}

TEST_F(NonFiniteNumbers, AreNamedWhereTheyArise) {
  spoil("m/model.safetensors", "decoder.layers.0.fc2.weight", 3e38);
  const std::string operation = "the first non-finite value is from decoder.layers.0.ffn: linear: ";
  expect_diverged(kCommandsOfModels[0], "run: the result is not finite; " + operation);
  expect_diverged(kCommandsOfModels[1], "eval: the loss is not finite; " + operation);
  expect_diverged({"translate @m --lines 2 <@in.de", ""}, "stdin:1: the logits of its translation are not finite");
  expect_diverged(kCommandsOfModels[3],
                  "fold: a result of the model in f32 before folding is not finite; " + operation);
}

// A bias makes every translation begin with "two", whose embedding overflows. The references do not contain this word,
// so the loss is finite.
TEST_F(NonFiniteNumbers, OfATranslationAreNamedByItsLine) {
  TransformerConfig config = model_->config();
  config.share_embeddings = "none";
  config.output_bias = true;
  const std::int64_t two = vocabulary_.encode_target("two").front();
  Transformer model(config, 3);
  const NamedTensors values = model.values();
  values.at("decoder.output_projection.bias").data<float>()[two] = 50;
  values.at("decoder.embed_tokens.weight")
      .slice(two, two + 1)
      .copy_from(Tensor::full({1, config.width}, 3e38, DType::f32));
  write_model_directory(files_ / "overflows", model, files_ / "vocabulary");
  write_bytes(files_ / "ones.en", "one\none\none\none\none\n");
  expect_diverged({"eval @overflows --source @in.de --reference @ones.en --hypotheses @hypotheses", "hypotheses"},
                  "eval: source:1: the logits of its translation are not finite");
}

TEST_F(NonFiniteNumbers, OfAnInferenceFormAndAPerplexityToo) {
  spoil("m/model.safetensors", "decoder.layer_norm.weight", 1e6);
  expect_diverged(kCommandsOfModels[1], "eval: the perplexity of a loss of ");
  spoil("m/norm_state.safetensors", "encoder.layer_norm.run_var", -1, 3);
  expect_diverged(kCommandsOfModels[5], "export: the inference form of encoder.layer_norm has the gain ");
}

TEST_F(NonFiniteNumbers, AreNotResumedFrom) {
  EXPECT_EQ(message<CheckpointError>([] { from_checkpoint(contents_of_step(1), "r/step-1"); }),
            "r/step-1: tensor w must be finite, got nan at [1, 0]");
}

// Adam computes the square roots of these means, and the root of a negative mean is NaN.
TEST_F(NonFiniteNumbers, NegativeMeansOfSquaredGradientsAreNotResumedFrom) {
  CheckpointContents c;
  c.optimizer = {{"exp_avg.w", Tensor::of<float>({2}, {0, -1})}, {"exp_avg_sq.w", Tensor::of<float>({2}, {0, -0.5f})}};
  EXPECT_EQ(message<CheckpointError>([&] { from_checkpoint(c, "r/step-1"); }),
            "r/step-1: tensor exp_avg_sq.w must be at least 0, got -0.5");
}

}  // namespace
}  // namespace foldgrad::testing
