// Tests that a run resumes from whatever is left of its files, and ends with the bits of an uninterrupted run.
#include <functional>
#include <set>

#include "tests/train/runs/family_run.h"
#include "tests/train/spawned_program.h"

namespace foldgrad::testing {
namespace {

class RunLife : public TinyRun {
 protected:
  void copy_run(const std::string& from, const std::string& to) {
    std::filesystem::copy(files_ / from, files_ / to, std::filesystem::copy_options::recursive);
  }
  void expect_resumed(const std::string& run, const ProgramResult& r, const std::string& message) {
    EXPECT_EQ(r.exit_code, 0) << run << "\n" << r.err;
    EXPECT_TRUE(contains(r.err, message)) << run;
    expect_same_numbers("whole", run, "step-00000005");
  }
};

TEST_F(RunLife, ResumingBeginsWhereThereIsNothing) {
  ASSERT_EQ(train("whole").exit_code, 0);
  expect_resumed("none", train("none", "--resume"), "there is no run yet: starting at step 0\n");
  // A run was killed before it wrote config.toml (`early` and its copy `fresh`), or after that, but before its first
  // checkpoint (`late`).
  std::filesystem::create_directories(files_ / "early/checkpoints/.part-step-00000002");
  write("early/command.txt", "foldgrad train\n");
  write("early/env.json.7-0.part", "{");
  copy_run("early", "fresh");
  expect_resumed("early", train("early", "--resume"), "there is no run yet: starting at step 0\n");
  EXPECT_EQ(train("fresh").exit_code, 0);
  EXPECT_FALSE(exists("fresh/env.json.7-0.part"));
  write("late/config.toml", bytes("whole/config.toml"));
  write("late/log.jsonl", "{\"event\":\"start\",\"step\":0}\n{\"ev");
  expect_resumed("late", train("late", "--resume"), "there is no checkpoint yet: starting at step 0\n");
  EXPECT_EQ(events("late", "start").size(), 1u);
}

TEST_F(RunLife, ResumesWithTheConfigurationAndTheDataOfTheRun) {
  ASSERT_EQ(train("whole", "--set train.lr=0.02").exit_code, 0);
  ASSERT_EQ(train("part", "--set train.lr=0.02 --set train.steps=3").exit_code, 0);
  std::vector<std::string> forms{"--resume @", "--out @ --resume", "--out @ --resume @",
                                 "--resume @/checkpoints/step-00000003", "--resume latest --out @"};
  // In this form, the configuration could be mistaken for the value of --resume.
  forms.push_back("--set train.lr=0.02 --data-dir " + files_.path() + " --out @ --resume " + files_ / "config.toml");
  for (const std::string& form : forms) {
    const std::string run = "run" + std::to_string(std::hash<std::string>()(form));
    copy_run("part", run);
    std::string filled = form;
    for (std::size_t at = 0; (at = filled.find('@')) != std::string::npos;) filled.replace(at, 1, files_ / run);
    expect_resumed(run, run_program("train --set train.steps=5 " + filled), "resuming at step 3\n");
  }
  for (const auto& [arguments, error] : {std::pair("--resume", "--out is required"),
                                         {"--resume nowhere", "--resume: there is no run or checkpoint \"nowhere\""},
                                         {"--out @none --resume", "CONFIG is required"}}) {
    expect_failure(run(std::string("train ") + arguments), 2, std::string("error: ") + error + "\n");
  }
  // The data are in another directory now.
  std::filesystem::create_directory(files_ / "elsewhere");
  for (const char* name : {"train.de", "train.en", "valid.de", "valid.en"})
    std::filesystem::rename(files_ / name, files_ / "elsewhere/" + name);
  expect_resumed("part", run("train --set train.steps=5 --resume @part --data-dir @elsewhere"), "resuming at step 3\n");
  // The validation data have changed.
  for (const char* name : {"elsewhere/valid.de", "elsewhere/valid.en"}) write(name, bytes(name) + "ein\n");
  expect_error("train --set train.steps=6 --resume @part", 4,
               "@part/checkpoints/step-00000005: the data differ from the run's data: valid.de, valid.en. Pass "
               "--allow-config-change to resume anyway");
  output("train --set train.steps=6 --allow-config-change --resume @part");
}

// Each change removes or damages one file or directory of the run.
TEST_F(RunLife, GoesOnFromWhatIsLeftOfItsFiles) {
  ASSERT_EQ(train("whole").exit_code, 0);
  ASSERT_EQ(train("part", "--set train.steps=3").exit_code, 0);
  const auto removed = [](const std::string& file) { std::filesystem::remove_all(file); };
  const auto longer = [](const std::string& file) { std::ofstream(file, std::ios::app) << " "; };
  const auto cut = [](const std::string& file) { std::filesystem::resize_file(file, 50); };  // within the first line
  struct Change {
    std::string file;
    std::function<void(const std::string&)> make;
    std::string message;
  };
  std::vector<Change> changes{
      {"log.jsonl", removed, "that the file had when the checkpoint was saved are missing\n"},
      {"log.jsonl", cut, "that the file had when the checkpoint was saved are missing\n"},
      {"checkpoints/step-00000003/config.json", longer, "step-00000003/config.json: must have "},
      {"checkpoints/step-00000003/vocabulary/dict.source.txt", longer, "dict.source.txt: must have "},
      {"checkpoints/step-00000003/optimizer.safetensors", cut, "optimizer.safetensors: must have "}};
  for (const char* file :
       {"command.txt", "env.json", "config.toml", "lock", "samples", "checkpoints/LATEST", "checkpoints/BEST"})
    changes.push_back({file, removed, "resuming at step 3\n"});
  int number = 0;
  for (const auto& [file, change, message] : changes) {
    const std::string run = fmt::format("changed{}", number++);
    copy_run("part", run);
    change(files_ / run + "/" + file);
    expect_resumed(run, train(run, "--resume"), message);
    const bool logged = file != "log.jsonl";
    EXPECT_EQ(events(run, "start").size(), logged ? 2u : 1u) << file;
    EXPECT_EQ(events(run, "train").size(), logged ? 4u : 2u) << file;
  }
}

// A run whose normalizers never leave their warm-up warns twice, before and after training. If they leave it in the
// last update, the run must not warn.
TEST_F(RunLife, WarnsOfANormalizerThatStaysInItsWarmUp) {
  int number = 0;
  // Trains for three updates. Returns the number of warnings with `keys`, and true if `compare` says that the run never
  // left its warm-up.
  const auto warnings = [&](const std::string& norm, const std::string& meanwhile, const std::string& keys,
                            const std::string& settings) {
    const std::string run = fmt::format("warmup{}", ++number);
    const ProgramResult r = train(run, "--set norm.name=" + norm + " --set train.steps=3 " + settings);
    EXPECT_EQ(r.exit_code, 0) << r.err;
    const std::string warning = fmt::format(
        "warning: {} never leaves its warm-up and {}: {}, and the run ends after 3 iterations; half of that is a good "
        "value\n",
        norm, meanwhile, keys);
    int count = 0;
    for (std::size_t at = 0; (at = r.err.find(warning, at)) != std::string::npos; ++at) ++count;
    EXPECT_EQ(count > 0, r.err.find("warm-up") != std::string::npos);
    return std::pair(count, output("compare @" + run).find("(never left its warm-up)") != std::string::npos);
  };
  const std::pair never(0, false), twice(2, true);
  const std::string window = "--set norm.un.window=2 ";
  const auto un = [&](const std::string& keys, const std::string& settings) {
    return warnings("un", "uses no averages", keys, settings);
  };
  EXPECT_EQ(un("norm.un.warmup = 4", window + "--set norm.un.warmup=4"), twice);
  EXPECT_EQ(events("warmup1", "start")[0].at("norm_warmup"), 4);
  EXPECT_EQ(un("", window + "--set norm.un.warmup=3"), never);
  EXPECT_EQ(un("", window + "--set norm.un.warmup=4 --set train.accumulate=2"), never);
  // UN uses averages only after the window is full.
  EXPECT_EQ(un("norm.un.window = 3", "--set norm.un.window=3 --set norm.un.warmup=0"), twice);
  EXPECT_EQ(un("", "--set norm.un.window=3 --set norm.un.warmup=0 --set norm.un.forward_average=exponential"), never);
  EXPECT_EQ(un("", "--set norm.un.window=1 --set norm.un.warmup=0"), never);  // with a window of 1, UN averages nothing
  const auto prepbn = [&](const std::string& keys, const std::string& settings) {
    return warnings("prepbn", "computes a layer normalization that inference leaves out", keys, settings);
  };
  EXPECT_EQ(prepbn("norm.prepbn.total = 300000", ""), twice);
  EXPECT_EQ(
      prepbn("norm.prepbn.warmup = 2, norm.prepbn.total = 2", "--set norm.prepbn.warmup=2 --set norm.prepbn.total=2"),
      twice);
  EXPECT_EQ(prepbn("", "--set norm.prepbn.total=3"), never);
  EXPECT_EQ(prepbn("", "--set norm.prepbn.start=0"), never);  // never uses layer normalization
}

TEST_F(RunLife, NotesOptionsOfNormalizersThatItDoesNotHave) {
  const ProgramResult r = train("run", "--set norm.name=un --set norm.un.window=3 --set norm.ln.eps=1e-6");
  EXPECT_TRUE(contains(r.err, "note: --set norm.ln.eps=1e-6 has no effect, since norm.name is un\n"));
  EXPECT_FALSE(contains(r.err, "norm.un.window"));
}

TEST_F(RunLife, RefusesForeignCheckpointsAndOnesThatAreAllDamaged) {
  ASSERT_EQ(train("run").exit_code, 0);
  ASSERT_EQ(train("small", "--set model.ffn_width=8").exit_code, 0);
  const std::string checkpoints = files_ / "run/checkpoints", foreign = checkpoints + "/step-00000009";
  copy_run("small/checkpoints/step-00000005", "run/checkpoints/step-00000009");
  expect_failure(train("run", "--resume " + foreign), 4,
                 "error: " + foreign + ": the configuration differs from the checkpoint's");
  expect_failure(train("run", "--allow-config-change --resume " + foreign), 4,
                 "step-00000009: does not belong to this run's model: trainer: decoder.layers.0.fc1.bias of the saved "
                 "state must be ");
  for (const char* step : {"/step-00000002", "/step-00000003", "/step-00000004", "/step-00000005", "/step-00000009"})
    std::filesystem::resize_file(checkpoints + step + "/optimizer.safetensors", 100);
  expect_failure(train("run", "--resume"), 4, "error: " + checkpoints + ": none of 5 checkpoints can be loaded:\n");
}

// At this learning rate no weight changes, so no later validation is better than the first.
TEST_F(RunLife, SavesWhatIsDueOrBetterThanBeforeAndKeepsSoMany) {
  const auto saved = [&](const std::string& run, const std::string& settings) {
    const ProgramResult r = train(run, "--set norm.name=ln --set train.lr=1e-30 --set train.initial_lr=0 " + settings);
    EXPECT_EQ(r.exit_code, 0) << r.err;
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(files_ / run + "/checkpoints"))
      if (entry.is_directory()) names.insert(entry.path().filename());
    return names;
  };
  EXPECT_EQ(saved("rare", "--set validate.every=1 --set output.save_every=100 --set output.keep=9"),
            (std::set<std::string>{"step-00000001", "step-00000005"}));
  EXPECT_EQ(saved("often", "--set validate.every=1 --set output.save_every=1 --set output.keep=2"),
            (std::set<std::string>{"step-00000001", "step-00000004", "step-00000005"}));
}

TEST_F(RunLife, OneProcessAtATimeWritesToIt) {
  SpawnedProgram first(arguments("run", kEndless) + " >/dev/null 2>&1");
  wait_until([&] { return exists("run/checkpoints/LATEST"); });
  for (const char* resume : {"", "--resume"})
    expect_failure(train("run", kEndless + resume), 3,
                   fmt::format("error: {}: is being trained by process {} on ", files_ / "run", first.pid()));
  first.send(SIGTERM);
  EXPECT_EQ(first.exit_code(), 130);
  EXPECT_EQ(train("run", "--set train.steps=1 --resume").exit_code, 0);
}

TEST_F(RunLife, AReportThatCannotBeMadeIsNoError) {
  std::filesystem::create_directories(files_ / "run/report.html");
  const ProgramResult r = train("run");
  EXPECT_EQ(r.exit_code, 0);
  EXPECT_TRUE(contains(r.err, "\nwarning: no report: "));
  EXPECT_TRUE(begins(r.out, "best of 5 steps: "));
}

struct ResumedRun {
  const char* name;
  std::string config, settings;  // the configuration file, and settings for train()
  int part, whole;               // the number of updates before the interruption, and in total
};

// An epoch of `vit` has two batches, and its third epoch mixes no images. An epoch of `gpt` has three batches.
const ResumedRun kRuns[] = {
    {"text", kTinyConfig, "", 3, 5},
    // At this learning rate no validation is better than the first.
    {"text_out_of_patience", kTinyConfig,
     "norm.name=ln;train.lr=1e-30;train.initial_lr=0;validate.every=1;validate.patience=3", 2, 5},
    {"text_averaged_by_adamw", kTinyConfig, "train.average_decay=0.9;train.optimizer=adamw;train.weight_decay=0.1", 3,
     5},
    {"text_averaged_with_statistics_by_sgd", kTinyConfig,
     "train.average_decay=0.75;train.average_statistics=true;train.optimizer=sgd;train.momentum=0.9;train.nesterov="
     "true",
     3, 5},
    {"text_accumulated_in_bf16", kTinyConfig, "train.accumulate=2;train.dtype=bf16;model.dropout=0.3", 3, 5},
    {"vit", kVitConfig,
     "model.layers=2;model.dropout=0.2;model.drop_path=0.3;model.weight_standardization=true;train.batch=20;"
     "data.augment=crop4 flip cutout8;train.mixup=0.8;train.cutmix=1;train.mix_off_epoch=2;train.no_decay=vectors;"
     "train.average_decay=0.5;train.average_statistics=true",
     3, 7},
    {"cct", kCctConfig, "model.dropout=0.2;model.attention_dropout=0.2", 3, 5},
    {"gpt", kGptConfig, "model.dropout=0.2;model.attention_dropout=0.2;train.batch=18;train.no_decay=vectors", 4, 8},
};

class Resumable : public AnyFamilyRun, public ::testing::WithParamInterface<ResumedRun> {};

TEST_P(Resumable, EndsWithTheBitsOfTheWholeRun) {
  const ResumedRun& run = GetParam();
  write("config.toml", run.config);
  const auto settings = [&](int steps) { return fmt::format("{};train.steps={}", run.settings, steps); };
  ASSERT_EQ(train("whole", settings(run.whole)), 0);
  const std::string score = text_.substr(0, text_.find('\n')), latest = bytes("whole/checkpoints/LATEST");
  ASSERT_EQ(train("part", settings(run.part)), 0);
  ASSERT_EQ(train("part", settings(run.whole), "latest"), 0);
  EXPECT_EQ(text_.substr(0, text_.find('\n')), score);  // the best score, perhaps from before the interruption
  const std::string step = latest.substr(0, latest.find('\n'));
  expect_same_numbers("whole", "part", step);
  EXPECT_EQ(bytes("whole/samples/" + step + ".txt"), bytes("part/samples/" + step + ".txt"));
  for (const char* kind : {"train", "validate"})
    EXPECT_EQ(timeless_events("whole", kind).back(), timeless_events("part", kind).back());
  for (const std::string file : {"/checkpoints/LATEST", "/checkpoints/BEST", "/exhibits.json"})
    if (exists("whole" + file)) {
      EXPECT_EQ(bytes("whole" + file), bytes("part" + file)) << file;
    }
}

INSTANTIATE_TEST_SUITE_P(Runs, Resumable, ::testing::ValuesIn(kRuns), [](const auto& run) { return run.param.name; });

}  // namespace
}  // namespace foldgrad::testing
