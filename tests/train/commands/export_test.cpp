// The command export: ONNX's own library checks the files (tests/onnx/onnx_check.cpp). tests/python/onnxruntime_test.py
// compares their results.
#include <filesystem>
#include <set>

#include "models/fold/model.h"
#include "models/onnx/graph.h"
#include "tests/models/transformer/tiny_translation.h"
#include "tests/train/program.h"
#include "train/checkpoints/model_directory.h"

namespace foldgrad::testing {
namespace {

constexpr const char* kFiles[] = {"encoder_model", "decoder_model", "decoder_with_past_model"};

// Returns the output of onnx_check, or its complaint; empty without ONNX's library.
std::string checked(const std::string& path) {
#ifdef FOLDGRAD_ONNX_CHECK
  const TemporaryDirectory directory;
  const std::string out = directory / "out";
  const int status = std::system(("'" FOLDGRAD_ONNX_CHECK "' " + path + " >" + out + " 2>&1").c_str());
  EXPECT_EQ(status, 0) << read_bytes(out);
  return read_bytes(out);
#else
  return path.substr(path.size());
#endif
}

// Returns the operators of a file, from the output of onnx_check.
std::set<std::string> operators(const std::string& text) {
  std::set<std::string> names;
  for (const std::string& line : lines_of(text))
    if (line.starts_with("operator ")) names.insert(line.substr(9, line.find(' ', 9) - 9));
  return names;
}

class ExportCommand : public ProgramFiles {
 protected:
  void SetUp() override {
#ifndef FOLDGRAD_ONNX_CHECK
    GTEST_SKIP() << "libonnx is not here to check the files";
#endif
  }

  // Exports a model with random weights.
  void write(const TransformerConfig& config) {
    Transformer model(config, 3);
    randomize(model, 5, 0.15);
    model.write_onnx(files_ / "onnx");
  }
  std::string file(const std::string& name) const { return files_ / "onnx" + "/" + name + ".onnx"; }
};

TEST_F(ExportCommand, NamesInputsAndOutputsAsRuntimesExpectThem) {
  Transformer model(tiny_config("un"), 3);
  write_model_directory(files_ / "m", model);
  const std::string written = files_ / "onnx: encoder_model.onnx, decoder_model.onnx, decoder_with_past_model.onnx";
  EXPECT_EQ(output("export @m --to onnx -o @onnx"), written + "\n");
  std::filesystem::create_directory(files_ / "m/vocabulary");
  write_bytes(files_ / "m/vocabulary/vocabulary.json", "any");
  EXPECT_EQ(output("export @m --to onnx -o @onnx"), written + ", vocabulary\n");
  EXPECT_EQ(bytes("onnx/vocabulary/vocabulary.json"), "any");
  const auto expect_begins = [&](const char* name, const std::string& text) {
    EXPECT_EQ(checked(file(name)).substr(0, text.size()), text);
  };
  expect_begins("encoder_model",
                "input input_ids INT64 [batch_size, encoder_sequence_length]\n"
                "input attention_mask INT64 [batch_size, encoder_sequence_length]\n"
                "output last_hidden_state FLOAT [batch_size, encoder_sequence_length, 8]\n"
                "operator ");
  expect_begins("decoder_model",
                "input input_ids INT64 [batch_size, decoder_sequence_length]\n"
                "input encoder_attention_mask INT64 [batch_size, encoder_sequence_length]\n"
                "input encoder_hidden_states FLOAT [batch_size, encoder_sequence_length, 8]\n"
                "output logits FLOAT [batch_size, decoder_sequence_length, 11]\n"
                "output present.0.encoder.key FLOAT [batch_size, 2, encoder_sequence_length, 4]\n"
                "output present.0.encoder.value FLOAT [batch_size, 2, encoder_sequence_length, 4]\n"
                "output present.0.decoder.key FLOAT [batch_size, 2, decoder_sequence_length, 4]\n"
                "output present.0.decoder.value FLOAT [batch_size, 2, decoder_sequence_length, 4]\n"
                "operator ");
  expect_begins("decoder_with_past_model",
                "input input_ids INT64 [batch_size, 1]\n"
                "input encoder_attention_mask INT64 [batch_size, encoder_sequence_length]\n"
                "input past_key_values.0.decoder.key FLOAT [batch_size, 2, past_decoder_sequence_length, 4]\n"
                "input past_key_values.0.decoder.value FLOAT [batch_size, 2, past_decoder_sequence_length, 4]\n"
                "input past_key_values.0.encoder.key FLOAT [batch_size, 2, encoder_sequence_length, 4]\n"
                "input past_key_values.0.encoder.value FLOAT [batch_size, 2, encoder_sequence_length, 4]\n"
                "output logits FLOAT [batch_size, 1, 11]\n"
                "output present.0.decoder.key FLOAT [batch_size, 2, past_decoder_sequence_length + 1, 4]\n"
                "output present.0.decoder.value FLOAT [batch_size, 2, past_decoder_sequence_length + 1, 4]\n"
                "operator ");
}

// Nothing is left of the normalizers: no node has one of their operators, and the others are those of `none`.
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
    write(config);
    for (const char* name : kFiles) {
      const std::string text = checked(files_ / "folded" + "/" + name + ".onnx");
      for (const std::string& op : operators(text))
        EXPECT_TRUE(op.find("Norm") == std::string::npos && op.find("Reduce") == std::string::npos && op != "Sqrt" &&
                    op != "Div" && op != "Sub")
            << op;
      EXPECT_EQ(text, checked(file(name)));
      EXPECT_NE(text, "");
      if (std::string(name) != "encoder_model") continue;
      // Mul: of the embeddings, the positions and the queries. Add: of 6 linear layers, the positions (2),
      // attention's bias and the sums of 2 sublayers.
      EXPECT_TRUE(contains(text, "operator Mul 3\n"));
      EXPECT_TRUE(contains(text, "operator Add 11\n"));
    }
  }
}

TEST_F(ExportCommand, WritesEveryNormalizerThatNeedsNoWholeSentence) {
  for (const NormalizerInfo& info : normalizers()) {
    if (info.name == "instancenorm") continue;
    TransformerConfig config = tiny_config(info.name, /*pre_norm=*/info.name != "deepnorm");
    if (info.name == "groupnorm") config.normalizer_options = {{"groups", "2"}, {"axes", "token"}};
    write(config);
    for (const char* name : {"encoder_model", "decoder_model"})
      EXPECT_EQ(operators(checked(file(name))).count("LayerNormalization"),
                info.name == "ln" || info.name == "deepnorm" || info.name == "groupnorm")
          << info.name;
  }
}

TEST_F(ExportCommand, WritesEveryActivationAndWhatFoldingLeaves) {
  for (const std::string& activation : BlockConfig::activation_names()) {
    TransformerConfig config = tiny_config("none", /*pre_norm=*/false);
    config.activation = activation;
    config.normalizer_at = {{"encoder.layers.0.ffn.residual", "affine"},
                            {"decoder.layers.0.encoder_attn.residual", "centernorm"}};
    write(config);
    const std::set<std::string> encoder = operators(checked(file("encoder_model")));
    EXPECT_EQ(encoder.count("Erf"), activation == "gelu");
    EXPECT_EQ(encoder.count("ReduceMean"), 0u);
    for (const char* name : {"decoder_model", "decoder_with_past_model"})
      EXPECT_EQ(operators(checked(file(name))).count("ReduceMean"), 1u);
  }
}

TEST_F(ExportCommand, Refuses) {
  Transformer model(tiny_config("instancenorm"), 3);
  write_model_directory(files_ / "m", model);
  expect_error("export @m -o @out", 2,
               "onnx: encoder.layers.0.self_attn_layer_norm (instancenorm) has statistics over the tokens of a "
               "sentence, which a decoder of one token after the other does not know");
  EXPECT_TRUE(begins(run("export @m --to torch -o @out").err, "error: --to: torch not in {onnx}\n"));
  EXPECT_TRUE(begins(run("export @m").err, "error: --out is required\n"));
  expect_error("export @nothing -o @out", 4, "@nothing: there is no such file or directory");
  write_bytes(files_ / "taken", "");
  Transformer other(tiny_config("un"), 3);
  write_model_directory(files_ / "un", other);
  const std::string config = bytes("un/config.json");
  expect_error("export @un -o @un", 2,
               "onnx: @un holds a model, whose config.json would be replaced; name another directory");
  EXPECT_EQ(bytes("un/config.json"), config);
  expect_error("export @un -o @taken", 3, "@taken: cannot be created: Not a directory");
}

// The memory is never accessed.
TEST_F(ExportCommand, RefusesMoreThanAFileOfProtobufCanHold) {
  OnnxFile graph("encoder");
  graph.initializer("small", Tensor::zeros({2}, DType::f32));
  const Tensor table = Tensor::empty({1 << 19, 1 << 10}, DType::f32);
  EXPECT_EQ(message_of([&] { graph.initializer("table", table); }),
            "onnx: encoder must have at most 2130706431 bytes of weights, got 2147483656 with table");
}

}  // namespace
}  // namespace foldgrad::testing
