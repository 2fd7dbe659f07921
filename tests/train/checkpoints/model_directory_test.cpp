#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "tests/harness/file_test.h"
#include "tests/models/transformer/tiny_translation.h"
#include "tests/train/checkpoints/contents.h"
#include "train/checkpoints/checkpoint.h"
#include "train/commands/load_model_as.h"
#include "train/config/config_json.h"

namespace foldgrad::testing {
namespace {

using nlohmann::json;

// Returns a model after three forward passes in training mode, so that its buffers differ from their initial values.
std::unique_ptr<Transformer> used_model(const TransformerConfig& config) {
  auto model = std::make_unique<Transformer>(config, 3);
  randomize(*model, 5);
  Tape tape;
  for (std::uint32_t step = 0; step < 3; ++step)
    model->loss(translation_batch(), {.tape = tape, .dtype = DType::f32, .training = true, .step = step}, 0);
  return model;
}

using ModelDirectory = FileTest;

TEST_F(ModelDirectory, ComesBackBitForBit) {
  for (const auto& [normalizer, pre_norm] :
       {std::pair("un", true), {"ln", false}, {"deepnorm", false}, {"mabn", true}, {"rmsnorm", true}}) {
    TransformerConfig config = tiny_config(normalizer, pre_norm);
    config.share_embeddings = "none";
    config.encoder_layers = 2;
    config.dropout = 0.25;
    const auto model = used_model(config);
    write_model_directory(files_ / normalizer, *model);
    const auto loaded = load_transformer(files_ / normalizer);
    EXPECT_TRUE(same_bits(loaded->values(), model->values())) << normalizer;
    EXPECT_TRUE(same_bits(loaded->state(), model->state())) << normalizer;
    const TranslationBatch batch = translation_batch();
    EXPECT_TRUE(identical(logits_by_tape(*loaded, batch), logits_by_tape(*model, batch))) << normalizer;
    TransformerConfig read = loaded->config();
    EXPECT_EQ(config_json(read), config_json(config)) << normalizer;
    read.normalizer_options = {};  // the loaded options contain the defaults as well
    EXPECT_EQ(read, config) << normalizer;
  }
}

// Models of version 0.3 and earlier lack the number of consecutive skips. They must still load.
TEST_F(ModelDirectory, MayLackTheCounterOfSkipsInARow) {
  TransformerConfig config = tiny_config("un");
  config.normalizer_options = {{"hold_on_skip", "1"}};
  const auto model = used_model(config);
  write_model_directory(files_ / "m", *model);
  NamedTensors state = model->state();
  ASSERT_GT(std::erase_if(state, [](const auto& b) { return b.first.ends_with(".skips_in_a_row"); }), 0u);
  write_safetensors(files_ / "m/norm_state.safetensors", state);
  EXPECT_TRUE(same_bits(load_transformer(files_ / "m")->state(), model->state()));
  EXPECT_NO_THROW(model->restore(state));
  state.erase("encoder.layer_norm.iters");
  EXPECT_ANY_THROW(model->restore(state));
}

TEST_F(ModelDirectory, NamesEveryOptionWithItsType) {
  TransformerConfig config = tiny_config("un");
  config.normalizer_options = {{"window", "2"}};
  const auto norm = config_json(config)["norm"];
  EXPECT_EQ(norm["name"], "un");
  EXPECT_EQ(norm["options"]["window"], 2);
  EXPECT_TRUE(norm["options"]["eps"].is_number_float());
  EXPECT_EQ(norm["options"]["mode"], "paper");
  EXPECT_EQ(config_json(tiny_config("deepnorm", false))["norm"]["options"].size(), 1);
}

TEST_F(ModelDirectory, TakesOtherTypesAndLessThanIsWritten) {
  const auto model = used_model(tiny_config("ln"));
  const std::string at = files_ / "m";
  write_model_directory(at, *model);
  std::filesystem::remove(at + "/norm_state.safetensors");
  auto tensors = model->values();
  for (auto& [name, tensor] : tensors) tensor = tensor.to(DType::bf16);
  write_safetensors(at + "/model.safetensors", tensors);
  json config = json::parse(read_bytes(at + "/config.json"));
  for (const char* key : {"dropout", "attention_dropout", "activation_dropout", "initialization", "tfixup_scope"})
    config["model"].erase(key);
  config["norm"] = {{"name", "ln"}};
  write_bytes(at + "/config.json", config.dump());
  const auto loaded = load_transformer(at, DType::f64);
  for (auto& [name, tensor] : tensors) tensor = tensor.to(DType::f64);
  EXPECT_TRUE(same_bits(loaded->values(), tensors));
}

// The vocabulary is a sparse file of 1 TiB. Copying it would take hours, so its size must be checked first.
TEST_F(ModelDirectory, TakesNoVocabularyThatCannotBeOne) {
  const std::string vocabulary = files_ / "vocabulary", file = vocabulary + "/vocabulary.json";
  write("vocabulary/vocabulary.json", "{}");
  std::filesystem::resize_file(file, std::uintmax_t(1) << 40);
  EXPECT_EQ(
      message<CheckpointError>([&] { write_model_directory(files_ / "out", *used_model(tiny_config()), vocabulary); }),
      file + ": must have at most 268435456 bytes, got 1099511627776");
  EXPECT_FALSE(exists("out"));
}

// If a broken link counted as a missing manifest, the files would be loaded without comparing their digests.
TEST_F(ModelDirectory, RefusesAManifestThatIsABrokenLink) {
  const std::string at = files_ / "m", manifest = at + "/manifest.json";
  write_model_directory(at, *used_model(tiny_config()));
  std::filesystem::create_symlink("manifest.json", manifest);
  EXPECT_EQ(message<CheckpointError>([&] { load_model(at); }),
            manifest + ": cannot be opened: Too many levels of symbolic links");
}

// A model's files may change after the model is loaded and before their digests are computed.
TEST_F(ModelDirectory, HasNoDigestsOfAFileThatCannotBeRead) {
  const std::string at = files_ / "m", model = at + "/model.safetensors";
  write_model_directory(at, *used_model(tiny_config()));
  std::filesystem::remove(model);
  std::filesystem::create_directory(model);
  EXPECT_EQ(message<CheckpointError>([&] { model_digests(at); }), model + ": is not a regular file");
}

TEST_F(ModelDirectory, IsFoundInARun) {
  const std::string run = files_ / "run", checkpoints = run + "/checkpoints", words = "/vocabulary/words.txt";
  const auto model = used_model(tiny_config());
  const auto contents = [&](std::int64_t step) {
    CheckpointContents c;
    c.step = step, c.model = model->values(), c.norm_state = model->state();
    return c;
  };
  std::filesystem::create_directory(run);
  const auto companions = [&](const std::string& to) {
    write_model_config(to, *model);
    std::filesystem::create_directory(to + "/vocabulary");
    write_bytes(to + words, "a\nb\n");
  };
  save_checkpoint(checkpoints, contents(1), {.companions = companions});
  save_checkpoint(checkpoints, contents(2), {.companions = companions});
  EXPECT_EQ(find_model_directory(run), checkpoints + "/step-00000002");
  save_checkpoint(checkpoints, contents(3), {.best = 3, .companions = companions});
  save_checkpoint(checkpoints, contents(4), {.best = 3, .companions = companions});
  const std::string best = checkpoints + "/step-00000003";
  EXPECT_EQ(find_model_directory(run), best);
  EXPECT_EQ(find_model_directory(checkpoints), best);
  EXPECT_EQ(find_model_directory(best), best);
  EXPECT_TRUE(same_bits(load_transformer(run)->values(), model->values()));
  EXPECT_EQ(read_bytes(best + words), "a\nb\n");
  EXPECT_EQ(load_checkpoint(best).step, 3);
  for (const std::string& file : {std::string("/config.json"), words})
    EXPECT_EQ(std::filesystem::hard_link_count(best + file), 1u) << file;

  write_bytes(files_ / "other", "a\nc\n");
  std::filesystem::remove(best + words);
  std::filesystem::rename(files_ / "other", best + words);
  const std::string damage = best + words + ": must have SHA-256 ";
  EXPECT_TRUE(begins(message<CheckpointError>([&] { load_model(run); }), damage));
  EXPECT_TRUE(begins(message<CheckpointError>([&] { load_checkpoint(best); }), damage));
  write_bytes(best + words, "a\nb\n");
  write_bytes(best + "/optimizer.safetensors", "");
  EXPECT_EQ(message<CheckpointError>([&] { load_model(run); }), "no error");
  EXPECT_EQ(message<CheckpointError>([&] { find_model_directory(files_.path()); }),
            files_.path() + ": is not a model; it has no config.json, and no checkpoint with one");
  EXPECT_EQ(error_of<CheckpointError>([&] { find_model_directory(files_ / "no"); }),
            "@no: there is no such file or directory");
}

TEST_F(ModelDirectory, IsNotWrittenWithNumbersThatAreNotFinite) {
  const auto model = used_model(tiny_config("un"));
  model->state().at("encoder.layer_norm.run_var").data<float>()[3] = NAN;
  EXPECT_EQ(error_of<NonFiniteError>([&] { write_model_directory(files_ / "m", *model); }),
            "@m: was not written, since the model has encoder.layer_norm.run_var: nan at [3]");
  EXPECT_FALSE(exists("m"));
}

class Malformed : public FileTest {
 protected:
  Malformed() : model_(used_model(tiny_config("un"))) {
    write_model_directory(at_, *model_);
    config_ = json::parse(read_bytes(at_ + "/config.json"));
  }
  std::string with_config(const json& config) { return with_config_text(config.dump()); }
  std::string with_config_text(const std::string& text) {
    write_bytes(at_ + "/config.json", text);
    return without("/config.json: ");
  }
  std::string with_tensors(const char* file, const NamedTensors& tensors) {
    write_safetensors(at_ + file, tensors);
    return without(std::string(file) + ": ");
  }
  // Checks that the error of load_model() begins with the path of `file`, and returns the rest.
  std::string without(const std::string& file) {
    const std::string refusal = error_of<CheckpointError>([&] { load_model(at_); });
    EXPECT_TRUE(begins(refusal, "@m" + file));
    return refusal.substr(std::min(refusal.size(), 2 + file.size()));
  }

  std::string at_ = files_ / "m";
  std::unique_ptr<Transformer> model_;
  json config_;
};

TEST_F(Malformed, Config) {
  EXPECT_EQ(with_config_text("{\"format\": "), "is not JSON at byte 12");
  EXPECT_EQ(with_config(json(3)), "must be an object, got number");
  const std::string formats =
      "\"format\" must be \"foldgrad transformer\" or \"foldgrad vit\" or \"foldgrad cct\" or \"foldgrad t2t\" or "
      "\"foldgrad swin\" or \"foldgrad convnext\" or \"foldgrad efficientnet_lite\" or \"foldgrad nfnet\" or "
      "\"foldgrad gpt\", got ";
  EXPECT_EQ(with_config(json::object()), formats + "none");
  const auto changed = [&](const char* pointer, const json& value) {
    json c = config_;
    c[json::json_pointer(pointer)] = value;
    return with_config(c);
  };
  EXPECT_EQ(changed("/format", "bert"), formats + "\"bert\"");
  EXPECT_EQ(changed("/format_version", 2), "\"format_version\" must be 1, got 2");
  EXPECT_EQ(changed("/norms", 2), "there is no key \"norms\"; did you mean \"norm\"?");
  EXPECT_EQ(changed("/model", 2), "\"model\" must be an object, got 2");
  EXPECT_EQ(changed("/model/widht", 8), "there is no key model.widht; did you mean model.width?");
  EXPECT_EQ(changed("/model/width", "8"), "model.width must be an integer in [0, 2147483647], got \"8\"");
  EXPECT_EQ(changed("/model/width", 8.0), "model.width must be an integer in [0, 2147483647], got 8.0");
  EXPECT_EQ(changed("/model/width", -8), "model.width must be an integer in [0, 2147483647], got -8");
  EXPECT_EQ(changed("/model/width", 18446744073709551615u),
            "model.width must be an integer in [0, 2147483647], got 18446744073709551615");
  EXPECT_EQ(changed("/model/max_positions", 1000001),
            "model.max_positions must be an integer in [0, 1000000], got 1000001");
  EXPECT_EQ(changed("/model/heads", 3), "transformer: heads must divide width = 8, got 3");
  EXPECT_EQ(changed("/model/pre_norm", 1), "model.pre_norm must be true or false, got 1");
  EXPECT_EQ(changed("/model/dropout", "a"), "model.dropout must be a number, got \"a\"");
  EXPECT_EQ(changed("/model/activation", 1), "model.activation must be text, got 1");
  EXPECT_EQ(changed("/norm/options", 1), "norm.options must be an object, got 1");
  EXPECT_EQ(changed("/norm/options/window", json::array()),
            "norm.options.window must be a number, true, false or text, got an array");
  EXPECT_EQ(changed("/norm/options/window", 0), "un: window must be an integer in [1, 1000000], got \"0\"");
  EXPECT_EQ(changed("/norm/at", json{{"x", 1}}), "norm.at.x must be text, got 1");
  EXPECT_EQ(
      changed("/norm/at", json{{"encoder.layer_nrom", "none"}}),
      "transformer: normalizer_at: there is no site \"encoder.layer_nrom\"; did you mean \"encoder.layer_norm\"?");
  json c = config_;
  c["model"].erase("width");
  EXPECT_EQ(with_config(c), "model.width is missing");
  c.erase("model");
  EXPECT_EQ(with_config(c), "\"model\" is missing");
  c = config_;
  c["norm"] = {{"name", "una"}};
  EXPECT_TRUE(begins(with_config(c), "there is no normalizer \"una\"; did you mean \"un\"? There are: "));
}

TEST_F(Malformed, SizesThatTheFileDoesNotBearOutTakeNoMemory) {
  config_["model"]["source_vocabulary"] = config_["model"]["target_vocabulary"] = 2147483647;
  write_bytes(at_ + "/config.json", config_.dump());
  EXPECT_EQ(without("/model.safetensors: "),
            "tensor encoder.embed_tokens.weight must be [2147483647, 8] according to config.json, got [11, 8]");
  config_["model"]["source_vocabulary"] = config_["model"]["target_vocabulary"] = 11;
  config_["model"]["decoder_layers"] = 2147483647;
  write_bytes(at_ + "/config.json", config_.dump());
  EXPECT_EQ(without("/model.safetensors: "),
            "must have a tensor decoder.layers.2147483646.fc1.weight [12, 8] according to config.json, got none");
}

TEST_F(Malformed, Tensors) {
  const NamedTensors parameters = model_->values();
  const auto with = [&](const std::string& name, const Tensor& tensor) {
    NamedTensors t = parameters;
    t.erase(name);
    if (tensor.defined()) t[name] = tensor;
    return with_tensors("/model.safetensors", t);
  };
  EXPECT_EQ(with("decoder.layers.0.self_attn.q_proj.bias", {}),
            "must have a tensor decoder.layers.0.self_attn.q_proj.bias [8] according to config.json, got none");
  EXPECT_EQ(with("decoder.output_projection.bias", Tensor::zeros({11}, DType::f32)),
            "has a tensor decoder.output_projection.bias, which config.json does not mention");
  EXPECT_EQ(with("encoder.layer_norm.weight", Tensor::zeros({9}, DType::f32)),
            "tensor encoder.layer_norm.weight must be [8] according to config.json, got [9]");
  EXPECT_EQ(with("encoder.layer_norm.weight", Tensor::zeros({8}, DType::i32)),
            "tensor encoder.layer_norm.weight must be of floating point, got i32");
  EXPECT_EQ(with("encoder.layer_norm.weight", Tensor::full({8}, 1e300, DType::f64)),
            "tensor encoder.layer_norm.weight must be finite, got inf at [0]");
  write_bytes(at_ + "/model.safetensors", "abc");
  EXPECT_EQ(without("/model.safetensors: "), "is not a safetensors file; it looks like text");
  write_safetensors(at_ + "/model.safetensors", parameters);

  NamedTensors state = model_->state();
  state["encoder.layer_norm.iters"] = Tensor::zeros({}, DType::f32);
  EXPECT_EQ(with_tensors("/norm_state.safetensors", state), "tensor encoder.layer_norm.iters must be i64, got f32");
  std::filesystem::remove(at_ + "/norm_state.safetensors");
  EXPECT_EQ(without("/norm_state.safetensors: "), "cannot be opened: No such file or directory");
}

}  // namespace
}  // namespace foldgrad::testing
