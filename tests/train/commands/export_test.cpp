// Tests the command export. ONNX's own library checks the files (tests/onnx/onnx_check.py);
// tests/python/onnxruntime_test.py compares the results of running them.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>

#include <set>

#include "models/fold/model.h"
#include "models/onnx/graph.h"
#include "tests/models/transformer/tiny_translation.h"
#include "tests/train/program.h"
#include "train/checkpoints/model_directory.h"

namespace foldgrad::testing {
namespace {

constexpr const char* kFiles[] = {"encoder_model", "decoder_model", "decoder_with_past_model"};

// Runs onnx_check.py, which must accept all files, and returns its output for each file. Returns an empty vector if no
// Python has onnx.
std::vector<std::string> checked(const std::vector<std::string>& paths) {
  const TemporaryDirectory directory;
  const std::string out = directory / "out";
  const std::string command = fmt::format("sh '{0}/python/run.sh' '{0}/onnx/onnx_check.py' {1} >{2} 2>&1",
                                          FOLDGRAD_SOURCE_DIR "/tests", fmt::join(paths, " "), out);
  const int status = std::system(command.c_str());
  std::vector<std::string> texts;
  if (WEXITSTATUS(status) == 77) return texts;
  std::string text = read_bytes(out);
  EXPECT_EQ(status, 0) << text;
  for (std::size_t end; (end = text.find("\n\n")) != std::string::npos; text.erase(0, end + 2))
    texts.push_back(text.substr(0, end + 1));
  EXPECT_EQ(texts.size(), paths.size());
  return texts;
}

// Returns the names of a file's operators. `text` is the output of onnx_check.py for the file.
std::set<std::string> operators(const std::string& text) {
  std::set<std::string> names;
  for (const std::string& line : lines_of(text))
    if (line.starts_with("operator ")) names.insert(line.substr(9, line.find(' ', 9) - 9));
  return names;
}

constexpr const char* kNoOnnx = "without onnx, files cannot be checked; FOLDGRAD_PYTHON must name a Python that has it";

class ExportCommand : public ProgramFiles {
 protected:
  void write(const TransformerConfig& config, const std::string& directory) {
    Transformer model(config, 3);
    randomize(model, 5, 0.15);
    model.write_onnx(files_ / directory);
  }
  // Returns the output of checked() for the files `names` in each directory.
  std::vector<std::string> checked_in(const std::vector<std::string>& directories,
                                      const std::vector<std::string>& names = {std::begin(kFiles), std::end(kFiles)}) {
    std::vector<std::string> paths;
    for (const std::string& directory : directories)
      for (const std::string& name : names) paths.push_back(files_ / directory + "/" + name + ".onnx");
    return checked(paths);
  }
};

TEST_F(ExportCommand, NamesInputsAndOutputsAsRuntimesExpectThem) {
  Transformer model(tiny_config("un"), 3);
  write_model_directory(files_ / "m", model);
  const std::string written = files_ / "onnx: encoder_model.onnx, decoder_model.onnx, decoder_with_past_model.onnx";
  EXPECT_EQ(output("export @m --to onnx -o @onnx"), written + "\n");
  FileTest::write("m/vocabulary/vocabulary.json", "any");
  EXPECT_EQ(output("export @m --to onnx -o @onnx"), written + ", vocabulary\n");
  EXPECT_EQ(bytes("onnx/vocabulary/vocabulary.json"), "any");
  const std::vector<std::string> got = checked_in({"onnx"});
  if (got.empty()) GTEST_SKIP() << kNoOnnx;
  EXPECT_TRUE(begins(got[0],
                     "input input_ids INT64 [batch_size, encoder_sequence_length]\n"
                     "input attention_mask INT64 [batch_size, encoder_sequence_length]\n"
                     "output last_hidden_state FLOAT [batch_size, encoder_sequence_length, 8]\n"
                     "operator "));
  EXPECT_TRUE(begins(got[1],
                     "input input_ids INT64 [batch_size, decoder_sequence_length]\n"
                     "input encoder_attention_mask INT64 [batch_size, encoder_sequence_length]\n"
                     "input encoder_hidden_states FLOAT [batch_size, encoder_sequence_length, 8]\n"
                     "output logits FLOAT [batch_size, decoder_sequence_length, 11]\n"
                     "output present.0.encoder.key FLOAT [batch_size, 2, encoder_sequence_length, 4]\n"
                     "output present.0.encoder.value FLOAT [batch_size, 2, encoder_sequence_length, 4]\n"
                     "output present.0.decoder.key FLOAT [batch_size, 2, decoder_sequence_length, 4]\n"
                     "output present.0.decoder.value FLOAT [batch_size, 2, decoder_sequence_length, 4]\n"
                     "operator "));
  EXPECT_TRUE(begins(got[2],
                     "input input_ids INT64 [batch_size, 1]\n"
                     "input encoder_attention_mask INT64 [batch_size, encoder_sequence_length]\n"
                     "input past_key_values.0.decoder.key FLOAT [batch_size, 2, past_decoder_sequence_length, 4]\n"
                     "input past_key_values.0.decoder.value FLOAT [batch_size, 2, past_decoder_sequence_length, 4]\n"
                     "input past_key_values.0.encoder.key FLOAT [batch_size, 2, encoder_sequence_length, 4]\n"
                     "input past_key_values.0.encoder.value FLOAT [batch_size, 2, encoder_sequence_length, 4]\n"
                     "output logits FLOAT [batch_size, 1, 11]\n"
                     "output present.0.decoder.key FLOAT [batch_size, 2, past_decoder_sequence_length + 1, 4]\n"
                     "output present.0.decoder.value FLOAT [batch_size, 2, past_decoder_sequence_length + 1, 4]\n"
                     "operator "));
}

// The files of a folded model must have the same inputs, outputs and operators as those of a model without normalizers.
// In the files of a model with layer normalization, LayerNormalization is a single operator.
TEST_F(ExportCommand, NothingIsLeftOfAFoldedNormalizer) {
  for (bool pre_norm : {true, false}) {
    TransformerConfig config = tiny_config("un", pre_norm);
    config.activation = "relu";
    Transformer model(config, 3);
    randomize(model, 5, 0.15);
    const FoldedModel folded = fold(model, {.tied = FoldOptions::Tied::untie, .rescale_stream = !pre_norm});
    transformer_of(folded).write_onnx(files_ / "folded");
    config.normalizer = "none";
    config.share_embeddings = "inputs";
    config.output_bias = true;
    write(config, "plain");
    config.normalizer = "ln";
    write(config, "ln");
    const std::vector<std::string> texts = checked_in({"folded", "plain", "ln"});
    if (texts.empty()) GTEST_SKIP() << kNoOnnx;
    for (std::size_t i = 0; i < std::size(kFiles); ++i) {
      const std::string& text = texts[i];
      for (const std::string& op : operators(text))
        EXPECT_TRUE(op.find("Norm") == std::string::npos && op.find("Reduce") == std::string::npos && op != "Sqrt" &&
                    op != "Div" && op != "Sub")
            << op;
      EXPECT_EQ(text, texts[std::size(kFiles) + i]);
      EXPECT_EQ(operators(texts[2 * std::size(kFiles) + i]).count("LayerNormalization"), 1u);
      if (i > 0) continue;
      // In the encoder, Mul scales the embeddings, masks the positions and scales the queries. Add occurs in 6 linear
      // layers, the positions (2), attention's bias and 2 residual connections.
      EXPECT_TRUE(contains(text, "operator Mul 3\n"));
      EXPECT_TRUE(contains(text, "operator Add 11\n"));
    }
  }
}

TEST_F(ExportCommand, WritesEveryActivationAndWhatFoldingLeaves) {
  const std::vector<std::string> activations = BlockConfig::activation_names();
  for (const std::string& activation : activations) {
    TransformerConfig config = tiny_config("none", /*pre_norm=*/false);
    config.activation = activation;
    config.normalizer_at = {{"encoder.layers.0.ffn.residual", "affine"},
                            {"decoder.layers.0.encoder_attn.residual", "centernorm"}};
    write(config, activation);
  }
  const std::vector<std::string> texts = checked_in(activations);
  if (texts.empty()) GTEST_SKIP() << kNoOnnx;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::set<std::string> found = operators(texts[i]);
    const bool encoder = i % std::size(kFiles) == 0;
    EXPECT_EQ(found.count("Erf"), activations[i / std::size(kFiles)] == "gelu");
    EXPECT_EQ(found.count("ReduceMean"), encoder ? 0u : 1u);
  }
}

TEST_F(ExportCommand, Refuses) {
  Transformer model(tiny_config("instancenorm"), 3);
  write_model_directory(files_ / "m", model);
  expect_error("export @m -o @out", 2,
               "onnx: encoder.layers.0.self_attn_layer_norm (instancenorm) has statistics over the tokens of a "
               "sentence, but a token-by-token decoder has only the earlier tokens");
  EXPECT_TRUE(begins(run("export @m --to torch -o @out").err, "error: --to: torch not in {onnx}\n"));
  EXPECT_TRUE(begins(run("export @m").err, "error: --out is required\n"));
  expect_error("export @nothing -o @out", 4, "@nothing: there is no such file or directory");
  write_bytes(files_ / "taken", "");
  Transformer other(tiny_config("un"), 3);
  write_model_directory(files_ / "un", other);
  const std::string config = bytes("un/config.json");
  expect_error("export @un -o @un", 2,
               "onnx: @un contains a model, whose config.json would be overwritten; choose another directory");
  EXPECT_EQ(bytes("un/config.json"), config);
  expect_error("export @un -o @taken", 3, "@taken: cannot be created: Not a directory");
}

// The table takes 2 GiB of address space, but no memory, since it is never accessed.
TEST_F(ExportCommand, RefusesMoreThanAFileOfProtobufCanHold) {
  OnnxFile graph("encoder");
  graph.initializer("small", Tensor::zeros({2}, DType::f32));
  const Tensor table = Tensor::empty({1 << 19, 1 << 10}, DType::f32);
  EXPECT_EQ(message_of([&] { graph.initializer("table", table); }),
            "onnx: encoder must have at most 2130706431 bytes of weights, got 2147483656 after adding table");
}

}  // namespace
}  // namespace foldgrad::testing
