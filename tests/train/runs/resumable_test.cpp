// One property of runs of every family: stopped and resumed, a run ends with the bits of one that was not.
#include "tests/train/runs/classification_run.h"

namespace foldgrad::testing {
namespace {

struct ResumedRun {
  const char *name, *config, *settings;  // as ClassificationRun::train() takes them
  int part, whole;                       // updates
};

// Epochs of the vision Transformer have two batches, and its third is not mixed.
const ResumedRun kRuns[] = {
    {"text", kTinyConfig, "", 3, 5},
    {"text_averaged", kTinyConfig, "train.average_decay=0.9", 3, 5},
    {"text_averaged_with_statistics", kTinyConfig, "train.average_decay=0.75;train.average_statistics=true", 3, 5},
    {"text_accumulated_in_bf16", kTinyConfig, "train.accumulate=2;train.dtype=bf16;model.dropout=0.3", 3, 5},
    {"vit", kVitConfig,
     "model.layers=2;model.dropout=0.2;model.drop_path=0.3;model.weight_standardization=true;train.batch=20;"
     "data.augment=crop4 flip cutout8;train.mixup=0.8;train.cutmix=1;train.mix_off_epoch=2;train.no_decay=vectors;"
     "train.average_decay=0.5;train.average_statistics=true",
     3, 7},
    {"cct", kCctConfig, "model.dropout=0.2;model.attention_dropout=0.2", 3, 5},
};

class Resumable : public ClassificationRun, public ::testing::WithParamInterface<ResumedRun> {
 protected:
  std::string bytes(const std::string& path) { return read_bytes(files_ / path); }
  // Events of a kind, without what the clock decides.
  std::vector<nlohmann::json> timeless(const std::string& run, const std::string& kind) {
    std::vector<nlohmann::json> events = events_of(files_ / run, kind);
    for (nlohmann::json& event : events)
      std::erase_if(event.get_ref<nlohmann::json::object_t&>(), [](const auto& member) {
        return member.first == "time" || member.first == "seconds" || member.first.ends_with("_per_second");
      });
    return events;
  }
};

TEST_P(Resumable, EndsWithTheBitsOfTheWholeRun) {
  const ResumedRun& run = GetParam();
  write_tiny_text(files_.path());
  write_bytes(files_ / "config.toml", run.config);
  const auto settings = [&](int steps) { return fmt::format("{};train.steps={}", run.settings, steps); };
  ASSERT_EQ(train("whole", settings(run.whole)), 0);
  ASSERT_EQ(train("part", settings(run.part)), 0);
  ASSERT_EQ(train("part", settings(run.whole), "latest"), 0);
  const std::string step = fmt::format("step-{:08}", run.whole);
  EXPECT_EQ(bytes("part/checkpoints/LATEST"), step + "\n");
  for (const char* file : {"model", "optimizer", "norm_state"}) {
    const std::string name = "/checkpoints/" + step + "/" + file + ".safetensors";
    EXPECT_TRUE(bytes("whole" + name) == bytes("part" + name)) << file;
  }
  EXPECT_EQ(bytes("whole/samples/" + step + ".txt"), bytes("part/samples/" + step + ".txt"));
  EXPECT_EQ(timeless("whole", "train").back(), timeless("part", "train").back());
  EXPECT_EQ(timeless("whole", "validate").back(), timeless("part", "validate").back());
  if (std::filesystem::exists(files_ / "whole/exhibits.json")) {
    EXPECT_EQ(bytes("whole/exhibits.json"), bytes("part/exhibits.json"));
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, Resumable, ::testing::ValuesIn(kRuns), [](const auto& run) { return run.param.name; });

}  // namespace
}  // namespace foldgrad::testing
