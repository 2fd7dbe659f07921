// Tests that every command that computes gives the same result on a GPU, or an emulated one, as on the CPU.
#include "engine/device.h"

#include "engine/files/safetensors.h"
#include "models/fold/difference.h"
#include "tests/train/model_program.h"
#include "tests/train/runs/family_run.h"
#include "train/commands/load_model_as.h"

namespace foldgrad::testing {
namespace {

using nlohmann::json;

std::string device() { return cuda_is_emulated() ? "emulated" : "cuda"; }

class Devices : public ModelProgram {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  }
};

TEST_F(Devices, Translate) {
  for (const char* options : {" --beam 1", " --beam 3", " --beam 3 --max-tokens 9"}) {
    const std::string want = output(std::string("translate @m <@in.de --device cpu") + options);
    EXPECT_GT(want.size(), 20u);
    EXPECT_EQ(output("translate @m <@in.de --device " + device() + options), want);
  }
  // The differences between a step's logits are larger than the rounding errors of bf16, so decoding in bf16 chooses
  // the same tokens.
  EXPECT_EQ(output("translate @m <@in.de --beam 1 --dtype bf16 --device " + device()),
            output("translate @m <@in.de --beam 1 --device cpu"));
}

TEST_F(Devices, Eval) {
  const json want = parsed(std::string("eval @m --json --device cpu") + kText),
             got = parsed(std::string("eval @m --json --hypotheses @own --device ") + device() + kText);
  EXPECT_NEAR(got["loss"], want["loss"], 1e-5 * want["loss"].get<double>());  // the f32 sums are in another order
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
      EXPECT_TRUE(contains(said, where == "cpu" ? "on cpu" : "on cuda"));
      return read_safetensors(files_ / where).tensors.at("logits").to(DType::f64);
    };
    EXPECT_LE(difference(logits(device()), logits("cpu")).relative, tolerance) << dtype;
  }
}

TEST_F(Devices, FoldAndVerify) {
  TransformerConfig config = model_->config();
  // `verify` computes numerical derivatives of the loss, which take many forward passes. So the model is tiny, and
  // max_positions = 5 limits its inputs to three tokens.
  config.max_positions = 5, config.width = 4, config.ffn_width = 6;
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
    EXPECT_GE(passed, 6u) << where;
  }
  // Folding computes in f64 on the host, so the files are identical.
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
    EXPECT_TRUE(close(got.at(name), tensor, 1e-5)) << name;  // the f32 sums are in another order
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
  const std::string other = cuda_is_emulated() ? "cuda" : "emulated";
  expect_error("eval @m --device " + other, 6, "--device " + other + ": not available; CUDA: " + cuda_description());
  EXPECT_EQ(run("eval @m --device gpu").exit_code, 2);
}

TEST_F(Devices, TheSecondOne) {
  if (cuda_devices() < 2) GTEST_SKIP() << "there is only one device";
  EXPECT_EQ(output("translate @m <@in.de --device " + device() + ":1"), output("translate @m <@in.de --device cpu"));
}

TEST_F(Devices, DefaultIsTheCpuWhereThereIsNoGpu) {
  if (!cuda_is_emulated()) GTEST_SKIP() << "CUDA: " << cuda_description();
  const ProgramResult plain = run("translate @m <@in.de"), automatic = run("translate @m <@in.de --device auto --tf32");
  EXPECT_EQ(plain.err, "");
  EXPECT_EQ(plain.out, output("translate @m <@in.de --device cpu"));
  EXPECT_EQ(automatic.out, plain.out);
}

struct DeviceRun {
  const char* name;
  std::string config, eval;  // eval: options of the command `eval`
  bool classifies = false;
};
const DeviceRun kDeviceRuns[] = {{"text", kTinyConfig, " --split valid --beam 1"},
                                 {"vit", kVitConfig, "", true},
                                 {"cct", kCctConfig, " --split valid", true},
                                 {"gpt", kGptConfig, ""}};

class RunDevices : public AnyFamilyRun, public ::testing::WithParamInterface<DeviceRun> {
 protected:
  RunDevices() : AnyFamilyRun(GetParam().config) {}

  std::vector<double> losses_on(const std::string& where, const std::string& dtype) {
    const std::string out = dtype + where;
    output("train @config.toml --data-dir @ --set output.log_every=1 --set train.average_decay=0.5 --set train.dtype=" +
           dtype + " --device " + where + " --out @" + out);
    EXPECT_EQ(events(out, "start").at(0).at("device"), where);
    EXPECT_EQ(events(out, "start").at(0).at("tf32"), false);
    std::vector<double> all;
    for (const char* kind : {"train", "validate"})
      for (const json& event : events(out, kind)) all.push_back(event.at("loss"));
    EXPECT_GE(all.size(), 4u);
    return all;
  }
  // Returns the loss from `eval` and, for a classifier, the probabilities from `classify`.
  std::vector<double> answers_on(const std::string& where, const std::string& of) {
    const std::string device = " --device " + where;
    std::vector<double> all{parsed("eval @" + of + " --data-dir @ --json" + GetParam().eval + device)["loss"]};
    if (GetParam().classifies) {
      const json images = parsed("classify @" + of + " @cifar-10-batches-bin/test_batch.bin:3 --json" + device);
      for (const json& one : images.at(0).at("classes")) all.push_back(one.at("probability"));
      EXPECT_GT(all.size(), 2u);
    }
    return all;
  }
  static void expect_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << i;
  }
};

// Each device sums in its own order, which hardly changes f32 results. In bf16, with 8 significant bits, such a sum may
// round to a neighbouring number. Checkpoints contain f32 values in both cases.
TEST_P(RunDevices, TrainEvalAndAnswer) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  expect_near(losses_on(device(), "bf16"), losses_on("cpu", "bf16"), 0.05);
  for (const std::string& where : {std::string("cpu"), device()})
    for (const char* file : {"model", "optimizer"}) {
      const std::string run = files_ / ("bf16" + where) + "/checkpoints/", step = read_bytes(run + "LATEST");
      const std::string path = run + step.substr(0, step.size() - 1) + "/" + file + ".safetensors";
      for (const auto& [name, tensor] : read_safetensors(path).tensors) EXPECT_NE(tensor.dtype(), DType::bf16) << name;
    }
  expect_near(losses_on(device(), "f32"), losses_on("cpu", "f32"), 1e-4);
  expect_near(answers_on(device(), "f32cpu"), answers_on("cpu", "f32cpu"), 1e-4);
  // The differences between logits are larger than rounding errors, so the devices generate the same text.
  const auto text_on = [&](const std::string& where) {
    return std::string(GetParam().name) == "gpt"
               ? output("generate @f32cpu --temperature 0 --length 30 --device " + where)
               : bytes("f32" + where + "/samples/step-00000003.txt");
  };
  EXPECT_EQ(text_on(device()), text_on("cpu"));
  // A run may be resumed on another device.
  output("train --resume @f32" + device() + " --set train.steps=7 --device cpu");
}

INSTANTIATE_TEST_SUITE_P(Runs, RunDevices, ::testing::ValuesIn(kDeviceRuns),
                         [](const auto& run) { return run.param.name; });

}  // namespace
}  // namespace foldgrad::testing
