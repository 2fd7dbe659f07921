// Tests training that starts from a model, with separate learning rates for some parameters and with frozen parameters.
#include "engine/files/file.h"
#include "models/fold/model.h"
#include "tests/models/vit/tiny_vit.h"
#include "tests/train/checkpoints/contents.h"
#include "tests/train/runs/family_run.h"
#include "train/checkpoints/model_directory.h"
#include "train/runs/start.h"
#include "train/tasks/families.h"

namespace foldgrad::testing {
namespace {

namespace fs = std::filesystem;

class FineTuning : public AnyFamilyRun {
 protected:
  void configure(const std::string& config) { write_bytes(files_ / "config.toml", config); }
  ExperimentConfig config(const std::string& settings) const {
    std::vector<std::string> all{"train.from=" + files_ / "run"};
    for (const std::string& one : lines_of(settings, ';')) all.push_back(one);
    return read_config(files_ / "config.toml", all);
  }
  // Returns the task of a run that starts from the model of "run". No update has been made yet.
  std::unique_ptr<Task> begun(const std::string& settings = "") {
    const ExperimentConfig c = config(settings);
    from_ = load_pretrained(c);
    std::unique_ptr<Task> task = make_task(c, files_ / c.data_directory(), from_->directory, Device::cpu);
    account_ = begin_from(*from_, task->model(), c.train);
    return task;
  }
  std::string from() const { return ";train.from=" + files_ / "run"; }
  std::string refused(const std::string& settings) {
    const std::string said = refusal(settings.find("train.from") == settings.npos ? settings + from() : settings);
    EXPECT_FALSE(exists(fmt::format("run{}", runs_ - 1))) << settings;
    return said;
  }

  std::optional<Pretrained> from_;
  std::string account_;
};

std::int64_t iterations(const Model& model) {
  std::int64_t most = 0;
  for (const Normalizer* norm : model.normalizers()) most = std::max(most, norm->diagnostics().iterations);
  return most;
}

TEST_F(FineTuning, OfEveryFamilyBeginsWithTheBitsAndTheScoresOfTheModel) {
  for (const std::string& family : {std::string(kTinyConfig), kVitConfig, kCctConfig, kGptConfig}) {
    SCOPED_TRACE(family.substr(0, 30));
    configure(family);
    fs::remove_all(files_ / "run");
    ASSERT_EQ(train("run", "train.steps=3;validate.every=3"), 0);
    for (const bool reset : {true, false}) {
      const std::unique_ptr<Task> task = begun(fmt::format("train.seed=7;train.reset_iterations={}", reset));
      EXPECT_TRUE(same_bits(task->model().values(), from_->model->values()));
      for (const auto& [name, tensor] : task->model().state())
        EXPECT_EQ(identical(tensor, from_->model->state().at(name)), !reset || !name.ends_with(".iters")) << name;
      EXPECT_EQ(iterations(task->model()), reset ? 0 : 3);
      EXPECT_EQ(task->validate().loss, events("run", "validate").back().at("loss"));
      EXPECT_EQ(account_,
                fmt::format("{} tensors from {}, head included; iteration counts {}", from_->model->values().size(),
                            files_ / "run/checkpoints/step-00000003", reset ? "restart at 0" : "continue"));
    }
  }
}

TEST_F(FineTuning, KeepsTheVocabularyOfTheModel) {
  for (const std::string& family : {std::string(kTinyConfig), kGptConfig}) {
    configure(family);
    for (const char* run : {"run", "other"}) fs::remove_all(files_ / run);
    ASSERT_EQ(train("run"), 0);
    write_bytes(files_ / "text/a.txt", few_words() + few_words() + "neue Zeichen: xyz\n");
    for (const char* name : {"train", "valid"}) {
      write_bytes(files_ / name + ".de", "eins neu\nzwei gut\n");
      write_bytes(files_ / name + ".en", "one new x\ngood two\n");
    }
    ASSERT_EQ(train("other", from()), 0);
    EXPECT_EQ(numbers_of_run(files_ / "run").at("vocabulary"), numbers_of_run(files_ / "other").at("vocabulary"));
  }
}

TEST_F(FineTuning, BeginsWithANewHeadWhereTheClassesAreOthersOrWhenTold) {
  ASSERT_EQ(train("run"), 0);
  ImageSet renamed = squares(48, 1), more = squares(48, 1);
  renamed.classes[1] = "under", more.classes.push_back("right");
  write_cifar10(files_ / "renamed", renamed, renamed);
  write_cifar10(files_ / "more", more, more);
  const auto heads = [&](const std::string& settings) {
    const std::unique_ptr<Task> task = begun(settings + ";train.seed=7");
    const ExperimentConfig fresh = config(settings + ";train.seed=7");
    const std::unique_ptr<Task> initial = make_task(fresh, files_ / fresh.data_directory(), "", Device::cpu);
    const NamedTensors own = task->model().values(), theirs = from_->model->values(), first = initial->model().values();
    for (const auto& [name, tensor] : own) {
      const bool head = name.starts_with("head.");
      EXPECT_TRUE(head || identical(tensor, theirs.at(name))) << name;
    }
    const Tensor head = own.at("head.weight");
    if (identical(head, theirs.at("head.weight"))) return "kept";
    return identical(head, first.at("head.weight")) ? "new" : "neither";
  };
  const std::string same = "data.directory=cifar-10-batches-bin";
  EXPECT_STREQ(heads(same), "kept");
  EXPECT_STREQ(heads(same + ";train.head=new"), "new");
  EXPECT_STREQ(heads("data.directory=renamed"), "new");
  EXPECT_TRUE(contains(account_, "step-00000003; new head: head.weight, head.bias; iteration counts"));
  EXPECT_STREQ(heads("data.directory=renamed;train.head=keep"), "kept");
  EXPECT_STREQ(heads("data.directory=more"), "new");
  EXPECT_EQ(refused("data.directory=more;train.head=keep"),
            "@run/checkpoints/step-00000003/model.safetensors: head.bias is [3], but must be [4] according to this "
            "configuration and its data; train.head = \"new\" creates a new output layer");
  // If the model has no class names, its head is kept, whatever the names of the new classes are.
  const std::string at = find_model_directory(files_ / "run");
  auto json = nlohmann::json::parse(read_bytes(at + "/config.json"));
  json.at("model").erase("class_names");
  fs::remove(at + "/manifest.json");
  write_bytes(at + "/config.json", json.dump());
  EXPECT_STREQ(heads("data.directory=renamed"), "kept");
}

TEST_F(FineTuning, ResumesWithTheSameBitsAndWithoutTheModel) {
  configure(kCctConfig);
  ASSERT_EQ(train("run"), 0);
  write_cifar10(files_ / "cifar-10-batches-bin", squares(48, 1), squares(24, 2));
  const std::string settings =
      "data.task=cifar10;data.valid_images=8;train.rates=[\"classifier.blocks.*=0.5\", \"*.norm1.*=0.25\"];"
      "train.freeze=[\"tokenizer.*\"];train.average_decay=0.5;train.clip=1" +
      from();
  ASSERT_EQ(train("whole", settings + ";train.steps=5"), 0);
  ASSERT_EQ(train("part", settings), 0);
  fs::remove_all(files_ / "run");
  ASSERT_EQ(train("part", settings + ";train.steps=5", "latest"), 0);
  expect_same_numbers("whole", "part", "step-00000005");
  const auto starts = events("part", "start");
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_TRUE(contains(starts[0].at("from"), "; new head: classifier.fc.weight")) << starts[0];
  EXPECT_FALSE(starts[1].contains("from"));
  EXPECT_EQ(starts[0].at("learning_rates"), starts[1].at("learning_rates"));
  EXPECT_TRUE(contains(bytes("part/config.toml"), "freeze = [\"tokenizer.*\"]\n"));
}

TEST_F(FineTuning, WarnsOfAWarmupOnlyWhenItBeginsAgain) {
  ASSERT_EQ(train("run"), 0);
  const auto warnings = [&](const std::string& run, const std::string& settings) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(train(run, "norm.un.warmup=5;" + settings + from()), 0);
    return contains(::testing::internal::GetCapturedStderr(), "never leaves its warm-up");
  };
  EXPECT_TRUE(warnings("again", ""));
  EXPECT_FALSE(warnings("on", "train.reset_iterations=false"));
}

TEST_F(FineTuning, RefusesAnotherModelBeforeAnythingIsWritten) {
  ASSERT_EQ(train("run"), 0);
  const std::string at = "@run/checkpoints/step-00000003/", config = at + "config.json: ";
  EXPECT_EQ(refused("train.from=" + files_ / "none"), "@none: there is no such file or directory");
  const auto differs = [&](const char* key, const char* there, const char* here) {
    return fmt::format("{}{} is {}, but {} in this configuration; set it to {}, or start from another model", config,
                       key, there, here, there);
  };
  EXPECT_EQ(refused("model.heads=1"), differs("model.heads", "2", "1"));
  EXPECT_EQ(refused("model.width=16"), differs("model.width", "8", "16"));
  EXPECT_EQ(refused("model.pre_norm=false"), differs("model.pre_norm", "true", "false"));
  EXPECT_EQ(refused("norm.name=bn"), differs("norm.name", "\"un\"", "\"bn\""));
  EXPECT_EQ(refused("norm.un.window=3"),
            at + "norm_state.safetensors: blocks.0.norm1.win_g is [4, 8], but must be [3, 8] according to this "
                 "configuration and its data; config.json in the same directory has the right sizes");
  EXPECT_EQ(refused("model.weight_standardization=true"),
            at + "model.safetensors: blocks.0.attn.proj.gain is missing, but must be [8] according to this "
                 "configuration and its data; config.json in the same directory has the right sizes");
  EXPECT_EQ(refused("train.freeze=[\"blocks.*\", \"neck.*\"]"),
            "train.freeze: no parameter is named \"neck.*\"; parameter names begin with blocks, head, norm, "
            "patch_embed, pos_embed");
  configure(kCctConfig);
  EXPECT_EQ(refused(""), differs("model.family", "\"vit\"", "\"cct\""));
}

TEST_F(FineTuning, RefusesModelsThatHaveMoreThanTheConfiguration) {
  ASSERT_EQ(train("run", "model.weight_standardization=true"), 0);
  EXPECT_EQ(refused(""),
            "@run/checkpoints/step-00000003/model.safetensors: blocks.0.attn.proj.gain [8] does not exist in a model "
            "with this configuration; config.json in the same directory has the right keys");
  VitConfig small = read_config(files_ / "config.toml").model.as<VitConfig>();
  small.image_size = 16, small.classes = 3;
  write_model_directory(files_ / "small", Vit(small, 1));
  EXPECT_EQ(refused("train.from=" + files_ / "small"),
            "@small/model.safetensors: pos_embed is [1, 4, 8], but must be [1, 16, 8] according to this configuration "
            "and its data; config.json in the same directory has the right sizes");
}

TEST_F(FineTuning, TakesFoldedModelsOnlyWhereTheyFit) {
  ASSERT_EQ(train("run", "model.qkv_bias=true"), 0);
  write_model_directory(files_ / "folded", *fold(*load_model(files_ / "run"), {}).model);
  write_bytes(files_ / "folded/certificate.json", "{}");
  const std::string folded = "model.qkv_bias=true;train.from=" + files_ / "folded;";
  EXPECT_EQ(
      refused(folded),
      "@folded/config.json: norm.name is \"none\", but \"un\" in this configuration; set it to \"none\", or start from "
      "another model. The model was folded; start from the unfolded model, which still has its normalizers");
  EXPECT_EQ(train("tuned", folded + "norm.name=none"), 0);
}

TEST_F(FineTuning, RefusesAVocabularyThatIsNotTheModels) {
  configure(kGptConfig);
  ASSERT_EQ(train("run"), 0);
  write_model_directory(files_ / "model", *load_model(files_ / "run"));
  write("model/vocabulary/vocabulary.json", "{\"format\": 1, \"kind\": \"characters\", \"characters\": \"abc\"}");
  EXPECT_EQ(refused("train.from=" + files_ / "model"),
            "@model/model.safetensors: wte.weight is [15, 8], but must be [4, 8] according to this configuration and "
            "its data; train.head = \"new\" creates a new output layer");
}

}  // namespace
}  // namespace foldgrad::testing
