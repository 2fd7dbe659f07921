#include "tests/train/tiny_run.h"

namespace foldgrad::testing {
namespace {

using TrainCommand = TinyRun;

TEST_F(TrainCommand, TellsScoresSamplesAndLayers) {
  const ProgramResult run = train("run");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto validations = events("run", "validate"), layers = events("run", "layers"), steps = events("run", "train");
  ASSERT_EQ(validations.size(), 2u);
  EXPECT_EQ(validations[1].at("step"), 5);
  for (const char* key : {"loss", "perplexity", "bleu", "tokenized_bleu", "chrf", "exact", "seconds"})
    EXPECT_TRUE(validations[1].at(key).is_number()) << key;
  EXPECT_EQ(validations[1].at("bleu_signature"), "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp");
  // The run prints the signatures of the scores only once, so that the lines with scores fit into 90 columns.
  const std::size_t told =
      run.err.find("BLEU is sacreBLEU nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp, chrF is nrefs:1|");
  EXPECT_NE(told, std::string::npos) << run.err;
  EXPECT_EQ(run.err.find("nrefs:1|case:mixed|eff:no", told + 20), std::string::npos) << run.err;
  int shown = 0;
  for (const std::string& line : lines_of(run.err)) {
    if (!contains(line, "validation: loss ")) continue;
    EXPECT_LE(line.size(), 90u) << line;
    ++shown;
  }
  EXPECT_EQ(shown, 2);
  EXPECT_EQ(steps.back().at("step"), 5);
  const auto& site = layers.at(1).at("normalizers").at("encoder.layer_norm");
  EXPECT_EQ(site.at("iterations"), 5);
  EXPECT_GT(site.at("least_variance"), 0);
  EXPECT_GE(site.at("greatest_variance"), site.at("least_variance"));
  EXPECT_GE(site.at("am_over_gm"), 1);
  EXPECT_TRUE(site.at("skips").is_number_integer());
  EXPECT_GT(layers.at(1).at("gradient_norms").at("decoder.layers.0"), 0);
  const std::string sample = bytes("run/samples/step-00000003.txt");
  EXPECT_TRUE(begins(sample, "source      eins rot\nreference   rot eins x\nhypothesis  "));
  EXPECT_TRUE(begins(run.out, "best of 5 steps: loss "));
  const std::string best = bytes("run/checkpoints/BEST");
  EXPECT_TRUE(contains(run.out, "\n" + files_ / "run/checkpoints/" + best));
}

// At this learning rate no weight changes, so no later validation is better than the first.
TEST_F(TrainCommand, StopsWhenPatienceEnds) {
  const ProgramResult run = train("run",
                                  "--set train.lr=1e-30 --set train.initial_lr=0 --set validate.every=1 "
                                  "--set norm.name=ln --set validate.patience=2");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "stopped at step 3: 2 validations without a better score\n"));
  EXPECT_EQ(bytes("run/checkpoints/LATEST"), "step-00000003\n");
  EXPECT_EQ(bytes("run/checkpoints/BEST"), "step-00000001\n");
}

TEST_F(TrainCommand, Divergence) {
  const std::string wild = "--set train.optimizer=sgd --set train.lr=1e38 --set train.warmup=1 ";
  const ProgramResult abort = train("abort", wild), skip = train("skip", wild + "--set train.on_nan=skip");
  EXPECT_EQ(abort.exit_code, 5) << abort.err;
  EXPECT_TRUE(contains(abort.err, "error: diverged: encoder."));
  EXPECT_TRUE(contains(abort.err, ": at step 3 the result"));
  ASSERT_EQ(events("abort", "diverged").size(), 1u);
  EXPECT_TRUE(contains(abort.err, events("abort", "diverged")[0].at("message")));
  EXPECT_EQ(skip.exit_code, 5) << skip.err;
  EXPECT_TRUE(contains(skip.err, "; this is failure 10 since the last report\n"));
}

TEST_F(TrainCommand, DivergesWhereAFiniteGradientLeavesWeightsThatAreNot) {
  const ProgramResult r = train("run", "--set train.lr=1e39 --set train.initial_lr=1e39 --set train.steps=1");
  EXPECT_EQ(r.exit_code, 5) << r.err;
  EXPECT_TRUE(contains(r.err, "error: diverged: at step 1 tensor decoder."));
  EXPECT_TRUE(contains(r.err, events("run", "diverged").at(0).at("message")));
  EXPECT_FALSE(exists("run/checkpoints/LATEST"));
}

TEST_F(TrainCommand, Errors) {
  const auto refused = [&](const std::string& out, const std::string& more) {
    const ProgramResult r = train(out, more);
    return std::to_string(r.exit_code) + " " + r.err.substr(0, r.err.find('\n'));
  };
  const std::string run = files_ / "run";
  EXPECT_EQ(refused("run", "--set data.train=absent"),
            "3 error: " + files_.path() +
                ": has no absent.de; data.directory = \"\" is below --data-dir, $FOLDGRAD_DATA or "
                "~/.cache/foldgrad");
  EXPECT_EQ(refused("run", "--device tpu").substr(0, 2), "2 ");
  EXPECT_EQ(refused("run", "--set norm.name=instancenorm"),
            "2 error: norm.name: instancenorm needs all tokens of a sentence at once, but a translation is generated "
            "token by token; groupnorm works with norm.groupnorm.axes = \"token\"");
  EXPECT_FALSE(exists("run"));
  EXPECT_EQ(train(std::string(300, 'a')).exit_code, 3);
  ASSERT_EQ(train("run", "--set train.steps=1").exit_code, 0);
  EXPECT_EQ(
      refused("run", ""),
      "3 error: " + run + ": already holds a run; continue it with --resume, or choose another directory with --out");
  EXPECT_TRUE(contains(refused("run", "--resume --set train.lr=1"), "train.lr was 0.01 and is now 1. Pass --allow-"));
  EXPECT_EQ(refused("run", "--resume --allow-config-change --set model.ffn_width=8").substr(0, 2), "4 ");
  EXPECT_EQ(refused("run", "--resume " + files_.path()),
            "4 error: " + files_.path() + ": must be a directory in " + run + "/checkpoints");
  EXPECT_EQ(train("run", "--resume --allow-config-change --set train.lr=2e-2").exit_code, 0);
  for (const auto& [folder, named] : {std::pair(run, "."),
                                      {run, "checkpoints"},
                                      {files_.path(), "run/checkpoints"},
                                      {run + "/checkpoints", "step-00000005"}}) {
    const ProgramResult resumed =
        run_after("cd '" + folder + "' && CUDA_VISIBLE_DEVICES= ", std::string("train --resume ") + named);
    EXPECT_EQ(resumed.exit_code, 0) << folder << ", " << named << ": " << resumed.err;
  }
}

}  // namespace
}  // namespace foldgrad::testing
