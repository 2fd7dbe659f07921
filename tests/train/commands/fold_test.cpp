// Tests the commands fold, verify and graph as a user runs them.
#include "models/fold/model.h"
#include "tests/train/model_program.h"
#include "train/commands/load_model_as.h"
#include "train/system/digest.h"

namespace foldgrad::testing {
namespace {

using nlohmann::json;

// Runs commands on @model, a model after six forward passes in training mode.
class UsedModel : public ProgramFiles {
 protected:
  UsedModel() {
    Transformer model(tiny_config("un"), 3);
    randomize(model, 5, 0.15);
    for (std::uint32_t step = 0; step < 6; ++step) {
      Tape tape;
      model.loss(translation_batch(), {.tape = tape, .dtype = DType::f32, .training = true, .step = step}, 0);
    }
    write_model_directory(files_ / "model", model);
  }
};
using FoldCommand = UsedModel;
using VerifyCommand = UsedModel;
using GraphCommand = UsedModel;

TEST_F(FoldCommand, WritesAModelAndItsCertificate) {
  const std::string model = files_ / "model", out = files_ / "folded";
  EXPECT_TRUE(contains(output("fold @model -o @folded --untie"), "folded  encoder.layer_norm"));
  const json proof = json::parse(read_bytes(out + "/certificate.json"));
  EXPECT_EQ(proof.at("inputs").at("description"), "8 random inputs, seed 1");
  EXPECT_EQ(proof.at("sites").size(), 7u);
  for (const json& site : proof.at("sites")) {
    EXPECT_EQ(site.at("outcome"), "folded") << site;
    EXPECT_EQ(site.at("left"), "none");
    EXPECT_EQ(site.at("normalizer"), "un");
    EXPECT_LE(site.at("difference").at("f64").at("relative").get<double>(), 1e-12) << site;
    EXPECT_LE(site.at("difference").at("f32").at("relative").get<double>(), 5e-6) << site;
  }
  EXPECT_LE(proof.at("difference").at("f64").at("relative").get<double>(), 1e-12);
  EXPECT_GT(proof.at("difference").at("f32").at("relative").get<double>(), 0);
  EXPECT_EQ(proof.at("folded").at("sha256").at("model.safetensors"), sha256_of_file(out + "/model.safetensors"));
  EXPECT_EQ(proof.at("model").at("sha256").at("config.json"), sha256_of_file(model + "/config.json"));

  const auto original = load_transformer(model), folded = load_transformer(out);
  EXPECT_EQ(folded->config().normalizer, "none");
  EXPECT_LE(difference(inference_logits(*folded, translation_batch().named(), DType::f32),
                       inference_logits(*original, translation_batch().named(), DType::f32))
                .relative,
            5e-6);
  expect_error("fold @model -o @folded", 3,
               "@folded: already holds a model; remove it, or choose another directory with -o");
  EXPECT_TRUE(begins(output("fold @folded -o @again"), "the model has no normalizers, so nothing is folded\n"));
}

TEST_F(FoldCommand, TakesADirectoryWhoseNameIsNotUtf8) {
  const std::string out = files_ / "folded\xff";
  EXPECT_EQ(run("fold @model -o '" + out + "'").exit_code, 0);
  EXPECT_EQ(json::parse(read_bytes(out + "/certificate.json"))["folded"]["path"], files_ / "folded\ufffd");
}

TEST_F(FoldCommand, NamesWhatItRefuses) {
  const json last = parsed("fold @model -o @folded --json").at("sites").back();
  EXPECT_EQ(last.at("site"), "decoder.layer_norm");
  EXPECT_EQ(last.at("outcome"), "kept");
  EXPECT_EQ(last.at("left"), "affine");
  EXPECT_EQ(last.at("kept")[0].at("edge"), "decoder.layer_norm -> decoder.output_projection: linear");
  EXPECT_EQ(load_transformer(files_ / "folded")->config().normalizer_at.size(), 1u);
  EXPECT_EQ(run("fold @model -o x --untie --keep-tied").exit_code, 2);
  EXPECT_EQ(run("fold @nothing -o x").exit_code, 4);
}

TEST_F(VerifyCommand, PassesForAModelAndItsFoldedForm) {
  const json checks = parsed("verify @model --untie --rescale-stream --json");
  EXPECT_EQ(checks.size(), 9u);
  for (const json& check : checks) EXPECT_EQ(check.at("outcome"), "passed") << check;
  write_model_directory(files_ / "folded", *fold(*load_transformer(files_ / "model")).model);
  EXPECT_EQ(run("verify @folded").exit_code, 0);
}

TEST_F(GraphCommand, DrawsBeforeAndAfter) {
  const ProgramResult r = run("graph @model --dot -");
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_TRUE(begins(r.out, "digraph forward {"));
  for (const char* text : {"label=\"as trained\"", "label=\"folded\"", "un\\ndecoder.layer_norm\" fillcolor=orange",
                           "affine\\ndecoder.layer_norm\" fillcolor=orange", "linear\\nencoder.layers.0.fc1.weight"})
    EXPECT_TRUE(contains(r.out, text)) << text;
  EXPECT_FALSE(contains(r.out, "affine\\nencoder.layer_norm"));
  EXPECT_EQ(r.err.substr(r.err.find(',')), ", 7 of them normalizers; after folding: 32, 1\n") << r.err;

  const ProgramResult without = run_after("PATH=/absent ", filled("graph @model --svg @g.svg"));
  EXPECT_EQ(without.exit_code, 3);
  EXPECT_EQ(without.err,
            "error: dot: not found; install graphviz (apt-get install graphviz), or write its input with --dot FILE\n");
  const ProgramResult svg = run("graph @model --svg @g.svg");
  if (svg.err == without.err) GTEST_SKIP() << "graphviz is not installed";
  ASSERT_EQ(svg.exit_code, 0) << svg.err;
  EXPECT_TRUE(contains(bytes("g.svg"), "<svg"));
  EXPECT_EQ(run("graph @model --svg @model").err, "error: " + files_.path() + "/model: is not a regular file\n");
  for (const char* left : {"model.part", "model.dot"}) EXPECT_FALSE(exists(left));
  EXPECT_EQ(run("graph @model/").out, files_ / "model.svg\n");
  EXPECT_EQ(bytes("model.svg"), bytes("g.svg"));
}

}  // namespace
}  // namespace foldgrad::testing
