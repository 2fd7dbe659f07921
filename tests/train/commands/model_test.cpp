#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "ops/embedding/embedding.h"
#include "tests/train/checkpoints/contents.h"
#include "tests/train/model_program.h"
#include "tests/train/padded_inputs.h"
#include "train/tasks/classification/images/picture.h"
#include "train/tasks/translation/translation.h"

namespace foldgrad::testing {
namespace {

using nlohmann::json;

class RunCommand : public ModelProgram {
 protected:
  void write_input(const NamedTensors& tensors) { write_safetensors(files_ / "in", tensors); }
  NamedTensors padded_ = padded_inputs();
};

// Returns the rows of x [B, T, C] where the mask is 1.
Tensor tokens_of(const Tensor& x, const Tensor& mask) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < mask.size(); ++i)
    if (mask.data<std::uint8_t>()[i]) rows.push_back(i);
  Tape tape(/*recording=*/false);
  const Var places = tape.constant(Tensor::of({std::int64_t(rows.size())}, rows));
  return gather(tape.constant(x.reshape({mask.size(), -1})), places).value();
}

TEST_F(RunCommand, GivesTheLogitsOfTheModel) {
  Tape tape(/*recording=*/false);
  const ForwardPass pass{.tape = tape, .dtype = DType::f32};
  const TranslationBatch batch = translation_batch();
  const Tensor logits = model_->logits(batch, pass).value(), memory = encoded(*model_, batch, pass);
  const Tensor source = padded_.at("source"), input = padded_.at("input");
  const auto expect_those = [&](const NamedTensors& inputs, const NamedTensors& masks) {
    write_input(inputs);
    output("run @m --input @in --output @out");
    const NamedTensors got = read_safetensors(files_ / "out").tensors;
    EXPECT_TRUE(identical(tokens_of(got.at("logits"), masks.at("input_mask")), logits));
    EXPECT_TRUE(identical(tokens_of(got.at("memory"), masks.at("source_mask")), memory));
    for (const auto& [name, t] : got)  // results are 0 where the mask is 0
      EXPECT_EQ(
          std::ranges::count(t.values<float>(), 0.f) / t.shape()[2],
          std::ranges::count(masks.at(name == "logits" ? "input_mask" : "source_mask").values<std::uint8_t>(), 0));
  };
  expect_those({{"source", source}, {"input", input}}, padded_);
  expect_those(padded_inputs(/*extra=*/2), padded_inputs(/*extra=*/2));
  EXPECT_EQ(output("run @m --input @in --output @out"),
            files_ / "out" + ": logits f32 [3, 6, 16] on cpu, memory f32 [3, 7, 8] on cpu\n");

  // `masked` contains the masks that the command would otherwise derive from the ids, so the results are the same. Its
  // source ids are i32. In the last input, a source mask of ones changes the logits.
  NamedTensors masked = padded_;
  masked["source"] = source.to(DType::i32);
  expect_those(masked, padded_);
  write_input({{"source", source}, {"source_mask", Tensor::full({3, 5}, 1, DType::u8)}, {"input", input}});
  output("run @m --input @in --output @out --dtype f64");
  const Tensor other = read_safetensors(files_ / "out").tensors.at("logits");
  EXPECT_EQ(other.dtype(), DType::f64);
  EXPECT_FALSE(identical(tokens_of(other, padded_.at("input_mask")).to(DType::f32), logits));
}

TEST_F(RunCommand, Errors) {
  const Tensor source = padded_.at("source"), input = padded_.at("input");
  const auto expect = [&](const NamedTensors& tensors, const std::string& want) {
    write_input(tensors);
    EXPECT_EQ(error_of<FileError>([&] { kTranslation.read_inputs(*model_, files_ / "in"); }), "@in: " + want);
  };
  expect({{"source", source}}, "must have a tensor input of ids, i64 [sentences, tokens]");
  expect({{"source", source}, {"inputs", input}},
         "must have no tensors other than source, input and their masks, got inputs");
  expect({{"source", source.to(DType::f32)}, {"input", input}},
         "source must be i64 or i32 [sentences, tokens], got f32 [3, 5] on cpu");
  expect({{"source", source}, {"input", Tensor::of<std::int64_t>({1, 2}, {2, 16})}},
         "input[0, 1] must be an id in [0, 16), got 16");
  expect({{"source", source}, {"input", Tensor::of<std::int64_t>({1, 2}, {2, 4})}},
         "input must have 3 rows, like source, got 1");
  expect({{"source", source}, {"input", input}, {"source_mask", padded_.at("input_mask")}},
         "source_mask must be u8 [3, 5], got u8 [3, 4] on cpu");
  expect({{"source", source}, {"input", input}, {"source_mask", Tensor::full({3, 5}, 2, DType::u8)}},
         "source_mask must contain only 0 and 1, got 2");
  expect_error("run @no --input @in --output @out", 4, "@no: there is no such file or directory");
  expect_error("run @m --input @no --output @out", 3, "@no: cannot be opened: No such file or directory");
}

using InspectCommand = ModelProgram;

TEST_F(InspectCommand, ShowsAModel) {
  const json all = parsed("inspect --json @m");
  EXPECT_EQ(all["parameters"], model_->parameter_count());
  EXPECT_EQ(all["model"]["width"], 8);
  EXPECT_EQ(all["norm"]["name"], "un");
  EXPECT_EQ(all["vocabulary"], (json{{"kind", "words"}, {"source", 16}, {"target", 16}}));
  EXPECT_EQ(all["normalizers"].size(), model_->normalizers().size());
  EXPECT_EQ(all["normalizers"][0]["site"], "encoder.layers.0.self_attn_layer_norm");
  EXPECT_EQ(all["normalizers"][0]["iterations"], 0);
  EXPECT_FALSE(all.contains("checkpoints"));
  const std::string text = output("inspect @m");
  for (const char* part : {"\n  width                  8\n", "iterations 0  skips 0  variance 1 ... 1\n"})
    EXPECT_TRUE(contains(text, part));
}

// The model has width 8, feed-forward width 12 and 16 words in each language. So fc1 has 12 x 8 weights and 12 biases,
// and each table of embeddings has 16 x 8 weights.
TEST_F(InspectCommand, ShowsLayers) {
  const json all = parsed("inspect --layers --json @m");
  std::int64_t parameters = 0;
  std::map<std::string, json> layers;
  for (const json& layer : all["layers"]) {
    parameters += layer["parameters"].get<std::int64_t>();
    layers[layer["layer"]] = layer;
  }
  EXPECT_EQ(parameters, model_->parameter_count());
  EXPECT_EQ(layers["encoder.embed_tokens"]["parameters"], 16 * 8);
  EXPECT_EQ(layers["encoder.layers.0.ffn"]["parameters"], 2 * 12 * 8 + 12 + 8);
  EXPECT_EQ(layers["encoder.layers.0.ffn"]["flop_per_row"], 2 * (2 * 12 * 8));
  EXPECT_EQ(layers["decoder.output_projection"]["parameters"], 0);  // its table is counted in decoder.embed_tokens
  EXPECT_EQ(layers["decoder.output_projection"]["flop_per_row"], 2 * 16 * 8);
  EXPECT_EQ(layers["decoder.output_projection"]["result"][1], 16);
  const std::string text = output("inspect @m --layers");
  EXPECT_TRUE(contains(text, "\nlayer "));
  EXPECT_TRUE(contains(text, fmt::format(" {} ", parameters)));
  EXPECT_FALSE(parsed("inspect --json @m").contains("layers"));
}

TEST_F(InspectCommand, ShowsARunAndAFile) {
  for (const std::int64_t step : {3, 5}) save_step(step, /*best=*/3);
  const json all = parsed("inspect --json @run");
  EXPECT_EQ(all["step"], 3);
  EXPECT_EQ(all["vocabulary"], json());
  EXPECT_EQ(all["checkpoints"], (json{{"steps", {3, 5}}, {"latest", 5}, {"best", 3}}));

  const Tensor shared = Tensor::of<float>({3}, {1, 2, 3});
  write_safetensors(files_ / "t", {{"a", shared}, {"b", shared}, {"c", Tensor::zeros({2, 2}, DType::u8)}},
                    {{"k", "v"}});
  const json file = parsed("inspect --json @t");
  EXPECT_EQ(file["elements"], 7);
  EXPECT_EQ(file["tensors"], 3);
  EXPECT_EQ(file["list"][2], (json{{"name", "c"}, {"dtype", "u8"}, {"shape", {2, 2}}}));
  EXPECT_EQ(file["metadata"]["k"], "v");
  EXPECT_TRUE(contains(output("inspect @t"), "u8    [2,2]                c\n"));
  expect_error("inspect @no", 3, "@no: cannot be opened: No such file or directory");
  expect_error("inspect @vocabulary", 4,
               "@vocabulary: is not a model; it has no config.json, and no checkpoint with one");
}

TEST(DoctorCommand, TellsOfTheMachine) {
  const json all = json::parse(run_program("doctor --json").out);
  for (const char* key : {"version", "compiler", "instructions", "cpu", "threads", "processors", "memory_mib", "cuda",
                          "cuda_usable", "sentencepiece", "data_directory", "current_directory", "libraries"})
    EXPECT_TRUE(all.contains(key)) << key;
  EXPECT_EQ(all["png"], png_available());
  EXPECT_EQ(all["jpeg"], jpeg_available());
  EXPECT_GT(all["memory_mib"], 100);
  EXPECT_TRUE(all["current_directory"]["exists"]);
  const ProgramResult text = run_program("doctor");
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_TRUE(contains(text.out, "\nprocessors         "));
}

}  // namespace
}  // namespace foldgrad::testing
