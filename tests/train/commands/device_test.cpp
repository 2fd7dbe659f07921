// Every command that computes gives on a device what it gives on the CPU.
#include "engine/device.h"

#include <cmath>

#include "engine/files/safetensors.h"
#include "models/fold/difference.h"
#include "tests/train/model_program.h"
#include "tests/train/runs/classification_run.h"
#include "tests/train/runs/language_run.h"
#include "train/commands/load_transformer.h"

namespace foldgrad::testing {
namespace {

using nlohmann::json;

std::string device() { return cuda_is_emulated() ? "emulated" : "cuda"; }

class Devices : public ModelProgram {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
    write_bytes(files_ / "out.en", "one two\nfour three one\nfive\none\ntwo three four five\n");
  }
  std::string output(const std::string& arguments) {
    const ProgramResult r = run(arguments);
    EXPECT_EQ(r.exit_code, 0) << arguments << "\n" << r.err;
    return r.out;
  }
  json parsed(const std::string& arguments) { return json::parse(output(arguments)); }

  static constexpr const char* kText = " --source @in.de --reference @out.en ";
};

TEST_F(Devices, Translate) {
  for (const char* options : {" --beam 1", " --beam 3", " --beam 3 --max-tokens 9"}) {
    const std::string want = output(std::string("translate @m <@in.de --device cpu") + options);
    EXPECT_GT(want.size(), 20u);
    EXPECT_EQ(output("translate @m <@in.de --device " + device() + options), want);
  }
  // Random logits of deviation 1 are far enough from each other for bf16 to choose alike.
  EXPECT_EQ(output("translate @m <@in.de --beam 1 --dtype bf16 --device " + device()),
            output("translate @m <@in.de --beam 1 --device cpu"));
}

TEST_F(Devices, Eval) {
  const json want = parsed(std::string("eval @m --json --device cpu") + kText),
             got = parsed(std::string("eval @m --json --hypotheses @own --device ") + device() + kText);
  EXPECT_NEAR(got["loss"], want["loss"], 1e-5 * want["loss"].get<double>());  // sums of f32 in another order
  for (const char* same : {"sentences", "target_tokens", "tokenized_bleu", "sacrebleu", "chrf", "exact_match"})
    EXPECT_EQ(got[same], want[same]) << same;
  EXPECT_EQ(read_bytes(files_ / "own"), output("translate @m <@in.de --device cpu"));
}

TEST_F(Devices, Run) {
  write_safetensors(files_ / "ids", {{"source", Tensor::of<std::int64_t>({2, 3}, {4, 5, 2, 6, 2, 1})},
                                     {"input", Tensor::of<std::int64_t>({2, 2}, {2, 4, 2, 5})}});
  for (const auto& [dtype, tolerance] : {std::pair{"f64", 1e-12}, {"f32", 1e-5}, {"bf16", 0.1}}) {
    const auto logits = [&](const std::string& where) {
      const std::string said =
          output("run @m --input @ids --output @" + where + " --dtype " + dtype + " --device " + where);
      EXPECT_NE(said.find(where == "cpu" ? "on cpu" : "on cuda"), std::string::npos) << said;
      return read_safetensors(files_ / where).tensors.at("logits").to(DType::f64);
    };
    EXPECT_LE(difference(logits(device()), logits("cpu")).relative, tolerance) << dtype;
  }
}

TEST_F(Devices, FoldAndVerify) {
  TransformerConfig config = model_->config();
  config.max_positions = 5;  // so that inputs are of three tokens: differences of the loss take many passes
  Transformer small(config, 3);
  randomize(small, 5, 0.6);
  write_model_directory(files_ / "s", small);
  for (const std::string& where : {std::string("cpu"), device()}) {
    const json proof = parsed("fold @s -o @folded_" + where + " --untie --json --device " + where);
    EXPECT_LE(proof.at("difference").at("f64").at("relative").get<double>(), 1e-12) << where;
    EXPECT_LE(proof.at("difference").at("f32").at("relative").get<double>(), 5e-6) << where;
    for (const json& site : proof.at("sites")) EXPECT_EQ(site.at("outcome"), "folded") << site;
    std::size_t passed = 0;
    for (const json& check : parsed("verify @s --untie --json --device " + where)) {
      EXPECT_NE(check.at("outcome"), "FAILED") << where << check;
      passed += check.at("outcome") == "passed";
    }
    EXPECT_GE(passed, 7u) << where;
  }
  // Folding itself is arithmetic in f64 on the host.
  EXPECT_EQ(read_bytes(files_ / "folded_cpu/model.safetensors"),
            read_bytes(files_ / ("folded_" + device()) + "/model.safetensors"));
}

TEST_F(Devices, Recalibrate) {
  for (const std::string& where : {std::string("cpu"), device()})
    output("recalibrate @m -o @r_" + where + " --batches 3 --device " + where + kText);
  const NamedTensors want = load_transformer(files_ / "r_cpu")->state(),
                     got = load_transformer(files_ / ("r_" + device()))->state(), before = model_->state();
  std::size_t moved = 0;
  for (const auto& [name, tensor] : want) {
    EXPECT_TRUE(close(got.at(name), tensor, 1e-5)) << name;  // f32, and sums in another order
    moved += !identical(tensor, before.at(name));
  }
  EXPECT_GT(moved, 7u);
}

TEST_F(Devices, AreRefusedByEveryCommandWhereTheyAreMissing) {
  const std::string there = device() + ":99";
  const std::string message = "--device " + there + ": " + cuda_trouble(99);
  for (const char* command : {"train configs/numbers-un.toml --out @no", "eval @m", "translate @m", "classify @m x",
                              "generate @m", "run @m --input x --output y", "fold @m -o @no", "verify @m",
                              "recalibrate @m -o @no", "demo", "verify-traces tests/golden/bn_0.safetensors"})
    expect_error(std::string(command) + " --device " + there, 6, message);
  EXPECT_FALSE(std::filesystem::exists(files_ / "no"));
  EXPECT_EQ(run("eval @m --device gpu").exit_code, 2);
}

TEST_F(Devices, TheSecondOne) {
  if (cuda_devices() < 2) GTEST_SKIP() << "there is one";
  EXPECT_EQ(output("translate @m <@in.de --device " + device() + ":1"), output("translate @m <@in.de --device cpu"));
}

TEST_F(Devices, DefaultIsTheCpuWhereThereIsNoGpu) {
  if (!cuda_is_emulated()) GTEST_SKIP() << "CUDA: " << cuda_description();
  const ProgramResult plain = run("translate @m <@in.de"), automatic = run("translate @m <@in.de --device auto --tf32");
  EXPECT_EQ(plain.err, "");
  EXPECT_EQ(plain.out, output("translate @m <@in.de --device cpu"));
  EXPECT_EQ(automatic.out, plain.out);
}

class ImageDevices : public ClassificationRun, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    std::string config = kVitConfig;
    if (GetParam() == std::string("cct"))
      for (const auto& [of_vit, of_cct] :
           {std::pair{"\"vit\"", "\"cct\""}, {"patch = 8", "stem = \"hybrid\"\nkernel = 7"}})
        config.replace(config.find(of_vit), std::string(of_vit).size(), of_cct);
    write_bytes(files_ / "config.toml", config);
  }
  // Trains, evaluates and classifies on one device; what the log, eval and classify say.
  std::vector<double> numbers_on(const std::string& where, const std::string& dtype) {
    const std::string at = files_.path() + "/", out = at + GetParam() + dtype + where, data = " --data-dir " + at;
    const ProgramResult trained = run_program("train " + at + "config.toml --out " + out + data + " --device " + where +
                                              " --set train.dtype=" + dtype);
    EXPECT_EQ(trained.exit_code, 0) << trained.err;
    std::vector<double> all;
    std::istringstream log(read_bytes(out + "/log.jsonl"));
    for (std::string line; std::getline(log, line);) {
      const json event = json::parse(line);
      if (event.at("event") == "start") {
        EXPECT_EQ(event.at("device"), where);
        EXPECT_EQ(event.at("tf32"), false);
      }
      if (event.contains("loss")) all.push_back(event.at("loss"));
    }
    EXPECT_EQ(all.size(), 4u);
    if (dtype != "f32") return all;  // the commands compute in f32
    const ProgramResult eval = run_program("eval " + out + data + " --json --device " + where);
    EXPECT_EQ(eval.exit_code, 0) << eval.err;
    all.push_back(json::parse(eval.out).at("loss"));
    const ProgramResult answers =
        run_program("classify " + out + " " + at + "cifar-10-batches-bin/test_batch.bin:3 --json --device " + where);
    EXPECT_EQ(answers.exit_code, 0) << answers.err;
    const json classified = json::parse(answers.out);
    for (const json& one : classified.at(0).at("classes")) all.push_back(one.at("probability"));
    EXPECT_GT(all.size(), 5u);
    return all;
  }
};

// In f32: sums in another order, through three updates. In bf16: 8 bits, where such sums are rounded differently.
TEST_P(ImageDevices, TrainEvalAndClassify) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  for (const auto& [dtype, tolerance] : {std::pair{"f32", 1e-4}, {"bf16", 0.05}}) {
    const std::vector<double> want = numbers_on("cpu", dtype), got = numbers_on(device(), dtype);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << dtype << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ImageDevices, ::testing::Values("vit", "cct"));

using LanguageDevices = LanguageRun;

// Losses as above; greedy text follows gaps between logits, which are wider than rounding.
TEST_F(LanguageDevices, TrainEvalAndGenerate) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  std::vector<std::vector<double>> losses;
  std::vector<std::string> texts;
  for (const std::string& where : {std::string("cpu"), device()}) {
    const auto output = [&](const std::string& arguments) {
      const ProgramResult r = run(arguments + " --device " + where);
      EXPECT_EQ(r.exit_code, 0) << r.err;
      return r.out;
    };
    output("train @config.toml --data-dir @ --out @" + where);
    losses.emplace_back();
    for (const char* kind : {"train", "validate"})
      for (const json& event : events(where, kind)) losses.back().push_back(event.at("loss"));
    losses.back().push_back(json::parse(output("eval @cpu --data-dir @ --json")).at("loss"));
    texts.push_back(output("generate @cpu --temperature 0 --length 30"));
  }
  ASSERT_EQ(losses[0].size(), 5u);
  ASSERT_EQ(losses[1].size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(losses[1][i], losses[0][i], 1e-4) << i;
  EXPECT_EQ(texts[1], texts[0]);
}

}  // namespace
}  // namespace foldgrad::testing
