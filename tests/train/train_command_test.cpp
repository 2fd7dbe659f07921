#include <gtest/gtest.h>

#include "tests/train/program.h"

namespace foldgrad::testing {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

constexpr const char* kConfig = R"([model]
width = 16
ffn_width = 16
heads = 2
encoder_layers = 1
decoder_layers = 1
[norm]
name = "un"
[norm.un]
warmup = 2
window = 2
[train]
steps = 5
max_tokens = 40
warmup = 2
lr = 1e-2
[validate]
every = 3
beam = 2
[output]
log_every = 2
save_every = 2
)";

class TrainCommand : public ::testing::Test {
 protected:
  TrainCommand() {
    std::string de, en;
    for (const char* one : {"eins", "zwei", "drei"})
      for (const char* two : {"rot", "gut", "alt"}) {
        de += std::string(one) + " " + two + "\n";
        en += std::string(two) + " " + one + " x\n";
      }
    for (const char* name : {"train", "valid"}) {
      write_bytes(files_ / (name + std::string(".de")), de);
      write_bytes(files_ / (name + std::string(".en")), en);
    }
    write_bytes(files_ / "config.toml", kConfig);
  }
  ProgramResult train(const std::string& out, const std::string& more = "") {
    return run_program("train " + files_ / "config.toml" + " --data-dir " + files_.path() + " --out " + files_ / out +
                       " " + more);
  }
  std::string bytes(const std::string& path) { return read_bytes(files_ / path); }

  TemporaryDirectory files_;
};

TEST_F(TrainCommand, ResumedRunHasTheBytesOfTheUninterruptedOne) {
  const ProgramResult whole = train("whole"), part = train("part", "--set train.steps=3");
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  ASSERT_EQ(part.exit_code, 0) << part.err;
  const ProgramResult resumed = train("part", "--resume");
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_TRUE(contains(resumed.err, "resuming at step 3\n")) << resumed.err;
  for (const char* file : {"model", "optimizer", "norm_state"}) {
    const std::string name = std::string("/checkpoints/step-00000005/") + file + ".safetensors";
    EXPECT_EQ(bytes("whole" + name), bytes("part" + name)) << file;
  }
  EXPECT_EQ(bytes("part/checkpoints/LATEST"), "step-00000005\n");
  EXPECT_TRUE(contains(bytes("part/log.jsonl"), "\"event\":\"validate\"")) << bytes("part/log.jsonl");
  EXPECT_TRUE(contains(whole.err, "tok:13a")) << whole.err;
}

TEST_F(TrainCommand, Errors) {
  EXPECT_EQ(train("run", "--set train.on_nan=skip").exit_code, 2);
  EXPECT_EQ(train("run", "--set train.step=1").exit_code, 2);
  EXPECT_EQ(train("run", "--set model.heads=3").exit_code, 2);
  EXPECT_EQ(train("run", "--set data.train=absent").exit_code, 3);
  EXPECT_EQ(train("run", "--resume").exit_code, 4);
  ASSERT_EQ(train("run", "--set train.steps=1").exit_code, 0);
  EXPECT_EQ(train("run").exit_code, 3);  // a run is there
  EXPECT_EQ(train("run", "--resume --set train.lr=1").exit_code, 4);
  EXPECT_EQ(train("run", "--resume --allow-config-change --set train.lr=2e-2").exit_code, 0);
  const ProgramResult diverged = train("other", "--set train.optimizer=sgd --set train.lr=1e38 --set train.warmup=1");
  EXPECT_EQ(diverged.exit_code, 5) << diverged.err;
  EXPECT_TRUE(contains(diverged.err, "error: diverged: encoder.")) << diverged.err;
}

}  // namespace
}  // namespace foldgrad::testing
