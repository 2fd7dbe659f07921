// Tests runs of image classifiers: validation, augmentation and mixing of batches, and the commands `eval`,
// `recalibrate` and `average`.
#include "models/fold/model.h"
#include "models/vit/vit.h"
#include "tests/train/runs/family_run.h"
#include "train/checkpoints/model_directory.h"
#include "train/loop/permutation.h"
#include "train/reports/report.h"
#include "train/tasks/classification/classification.h"
#include "train/tasks/classification/mix.h"

namespace foldgrad::testing {
namespace {

class ClassificationScoring : public ClassificationRun {
 protected:
  nlohmann::json eval(const std::string& arguments) { return parsed("eval " + arguments + " --json --data-dir @"); }
};

TEST_F(ClassificationScoring, NoCheckpointIsChosenByTheTestImages) {
  // The learning rate rises until it destroys the trained weights, so the last validation is not the best.
  ASSERT_EQ(train("run", "train.steps=6;train.warmup=5;train.lr=50;validate.every=1;output.save_every=3"), 0);
  EXPECT_TRUE(begins(text_, "last of 6 steps, validated on the test images: top-1 "));
  EXPECT_TRUE(contains(text_, "/checkpoints/step-00000006\n"));
  EXPECT_FALSE(exists("run/checkpoints/BEST"));
  EXPECT_FALSE(exists("run/checkpoints/step-00000001"));  // a better score on the test images saves no checkpoint
  const auto validations = events("run", "validate");
  const auto is_better_than_the_last = [last = validations.back()](const nlohmann::json& v) {
    return v.at("top1") >= last.at("top1") && v.at("loss") < last.at("loss");
  };
  ASSERT_TRUE(std::ranges::any_of(validations, is_better_than_the_last));
  EXPECT_EQ(find_model_directory(files_ / "run"), files_ / "run/checkpoints/step-00000006");
  EXPECT_EQ(events("run", "start").at(0).at("validated_on"), "test");
  const RunLog log = read_run_log(files_ / "run");
  const RunSummary summary = summary_of(log);
  EXPECT_EQ(summary.best->step, 6);
  EXPECT_TRUE(contains(comparison_table({summary}), " 6 (last) "));
  EXPECT_TRUE(contains(report_html({log}), "\"validated_on\":\"test\""));
  EXPECT_EQ(refusal("validate.patience=2"),
            "validate.patience must be 0, got 2: validation uses the test images, which must not decide when training "
            "stops");
}

// An epoch has four batches of 12, so two epochs are eight updates. The first epoch is the warm-up.
TEST_F(ClassificationScoring, EpochsDecideHowLongARunIs) {
  std::string config = kVitConfig;
  for (const auto& [updates, epochs] :
       {std::pair("\nsteps = 3\n", "\nepochs = 2\n"), {"\nwarmup = 2\n", "\nwarmup_epochs = 1\n"}})
    config.replace(config.find(updates), std::string(updates).size(), epochs);
  write_bytes(files_ / "config.toml", config);
  ASSERT_EQ(train("run"), 0);
  const auto start = events("run", "start").at(0);
  EXPECT_EQ(start.at("steps"), 8);
  EXPECT_EQ(start.at("epochs"), 2);
  const auto updates = events("run", "train");
  ASSERT_EQ(updates.size(), 8u);
  EXPECT_EQ(updates[4].at("lr"), 1e-2);
  EXPECT_LT(updates[3].at("lr"), 1e-2);
  // The finished run of two epochs continues to three epochs.
  write_bytes(files_ / "config.toml", config.replace(config.find("epochs = 2"), 10, "epochs = 3"));
  ASSERT_EQ(train("run", "", "latest"), 0);
  EXPECT_EQ(events("run", "train").back().at("step"), 12);
  EXPECT_EQ(refusal("train.steps=9"),
            "--set train.steps: set train.steps or train.epochs, not both; train.epochs is 3, and 0 turns epochs off");
}

TEST_F(ClassificationScoring, HeldOutImagesChoose) {
  ASSERT_EQ(train("run", "data.valid_images=12;validate.patience=9"), 0);
  EXPECT_TRUE(begins(text_, "best of 3 steps: "));
  EXPECT_TRUE(exists("run/checkpoints/BEST"));
  EXPECT_FALSE(events("run", "start").at(0).contains("validated_on"));
}

// The saved model is the one that was validated, including its averaged statistics. Scores are computed in f32,
// whatever the dtype of training.
TEST_F(ClassificationScoring, EvalGivesTheScoresOfTheLastValidation) {
  ASSERT_EQ(train("run", "train.steps=8;train.average_decay=0.75;train.average_statistics=true;train.dtype=bf16"), 0);
  const auto validated = events("run", "validate").back();
  const nlohmann::json got = eval("@run");
  for (const char* score : {"loss", "top1", "top5"}) EXPECT_EQ(got.at(score), validated.at(score)) << score;
  EXPECT_EQ(got.at("split"), "test");
  const std::string samples = bytes("run/samples/step-00000008.txt");
  EXPECT_EQ(got.at("samples"), samples);
  const std::string text = output("eval @run --data-dir @");
  EXPECT_EQ(text, "test: " + got.at("text").get<std::string>() + "\n" + samples);
  EXPECT_TRUE(contains(text, "of 24 images"));
  EXPECT_TRUE(contains(eval("@run --split train").at("text"), "of 48 images"));
  // The folded model does not belong to the run, so eval needs a configuration.
  write_model_directory(files_ / "folded", *fold(*load_model(files_ / "run")).model);
  EXPECT_NEAR(eval("@folded --config @run/config.toml").at("loss"), got.at("loss"), 1e-5);
  expect_error("eval @folded --data-dir @", 2, "@folded does not belong to a run: --config must name a configuration");
  expect_error("eval @run --data-dir @ --split other", 2,
               "the split of images must be train, valid or test, got other");
  expect_error(
      "eval @run --data-dir @ --source a --reference b", 2,
      "eval: --source, --reference and --hypotheses are only for translation models, got a model of family \"vit\"");
  expect_error("eval @run --data-dir @ --config configs/numbers-un.toml", 2,
               "configs/numbers-un.toml: model.family must be \"vit\", that of the model, got \"transformer\"");
  expect_error("eval @run --data-dir @ --config configs/shapes-vit-un.toml", 2,
               "the model needs images of 32 x 32 pixels and 3 classes, got 32 x 32 and 10");
}

TEST_F(ClassificationScoring, RecalibrateGoesThroughWhatARunTrainsOn) {
  ASSERT_EQ(train("run", "norm.name=bn;model.dropout=0.5"), 0);
  EXPECT_EQ(output("recalibrate @run -o @new --data-dir @ --batches 60"),
            filled("@new: recomputed the statistics of @run/checkpoints/step-00000003 over 60 batches\n"));
  const auto before = load_model(files_ / "run"), after = load_model(files_ / "new");
  for (const auto& [name, value] : before->values())
    EXPECT_EQ(after->values().at(name).values<float>(), value.values<float>()) << name;
  // The first normalizer's input does not depend on running statistics. After 60 batches with alpha = 0.9, the old
  // statistics have a weight of only 0.9^60 = 0.002. `whole` averages the statistics of all 48 images; those of batches
  // of 12 vary around them.
  const auto whole = load_model(files_ / "run");
  const ImageSet images = squares(48, 1);
  for (int pass = 0; pass < 60; ++pass) {
    Tape tape(/*recording=*/false);
    whole->forward({{"images", images.pixels}},
                   {.tape = tape, .dtype = DType::f32, .training = true, .without_dropout = true});
  }
  for (const char* name : {"blocks.0.norm1.run_mean", "blocks.0.norm1.run_var"}) {
    const auto got = after->state().at(name).values<float>(), want = whole->state().at(name).values<float>(),
               old = before->state().at(name).values<float>();
    double off = 0, moved = 0;
    for (std::size_t c = 0; c < want.size(); ++c)
      off += std::abs(got[c] - want[c]), moved += std::abs(old[c] - want[c]);
    EXPECT_LT(off, 0.2 * moved) << name;
  }
  // An epoch is four batches.
  EXPECT_TRUE(contains(output("recalibrate @run -o @epoch --data-dir @"), " over 4 batches\n"));
  expect_error(
      "recalibrate @run -o @none --data-dir @ --split test", 2,
      "recalibrate: models of family \"vit\" are recalibrated on their own training data, so --source, --reference and "
      "--split must not be given");
}

TEST_F(ClassificationScoring, AveragesOfCheckpointsAreModelsToo) {
  ASSERT_EQ(train("run"), 0);
  output("average --last 2 @run -o @average");
  EXPECT_TRUE(contains(eval("@average --config @run/config.toml").at("text"), "of 24 images"));
}

VitConfig config_of_squares() {
  VitConfig config;
  config.image_size = 32, config.patch = 8, config.width = 8, config.heads = 2, config.layers = 1, config.classes = 3;
  return config;
}

// Each image is uniformly gray, 100 or 200. A crop uncovers a border, which is black or has the mean value, 150. Cutout
// fills a hole of one pixel with the mean.
TEST_F(ClassificationScoring, CropsShowTheMeanOrBlackAndHolesTheMean) {
  VitConfig config = config_of_squares();
  config.pixels = {.mean = {150 / 255.0, 150 / 255.0, 150 / 255.0}, .std = {1, 1, 1}};
  const ImageSet images = squares(48, 1);
  auto* bytes = images.pixels.data<std::uint8_t>();
  for (std::int64_t i = 0; i < 48; ++i)
    std::fill_n(bytes + i * images.image_bytes(), images.image_bytes(), std::uint8_t(i % 2 == 0 ? 100 : 200));
  const ImageSplit split{images, counting(48)};
  const auto counts = [&](CropFill fill) {
    ExperimentConfig experiment("vit");
    auto& keys = experiment.data.as<ImageConfig>();
    keys.augment = "crop1 cutout1", keys.batch = 48, keys.fill = fill;
    Classification task(std::make_unique<Vit>(config, 1), {split, split}, experiment);
    std::map<int, int> all;
    for (const std::uint8_t byte : task.next().inputs.at("images").values<std::uint8_t>()) ++all[byte];
    return all;
  };
  std::map<int, int> mean = counts(CropFill::mean), black = counts(CropFill::zero);
  EXPECT_EQ(black.size(), 4u);
  EXPECT_EQ(mean.size(), 3u);
  EXPECT_EQ(black[150], 48 * 3);  // the hole of one pixel in each image
  EXPECT_GT(black[0], 48 * 3);
  // With both fills, the same pixels keep their gray.
  EXPECT_EQ(black[100], mean[100]);
  EXPECT_EQ(black[200], mean[200]);
}

// The seed and the batch's number determine how a batch is mixed. Mixing ends after two epochs (train.mix_off_epoch).
TEST_F(ClassificationScoring, ImagesAreMixedBySeedAndBatch) {
  const VitConfig config = config_of_squares();
  const auto task = [&](const MixOptions& mix) {
    const ImageSplit split{squares(48, 1), counting(48)};
    ExperimentConfig experiment("vit");
    experiment.train.seed = 5;
    auto& keys = experiment.data.as<ImageConfig>();
    keys.batch = 20, keys.mix_off_epoch = 2, keys.mixup = mix.mixup, keys.cutmix = mix.cutmix;
    return Classification(std::make_unique<Vit>(config, 1), {split, split}, experiment);
  };
  Classification plain = task({}), mixed = task({.mixup = 0.5, .cutmix = 1});
  for (std::int64_t k = 0; k < 6; ++k) {
    const NamedTensors as_is = plain.next().inputs, got = mixed.next().inputs;
    EXPECT_FALSE(as_is.count("share"));
    if (k >= 4) {  // an epoch has two batches
      EXPECT_EQ(got.size(), 2u);
      EXPECT_TRUE(identical(got.at("images"), as_is.at("images")));
      continue;
    }
    const MixedImages want =
        mix(as_is.at("images"), as_is.at("target"), draw_mix({.mixup = 0.5, .cutmix = 1}, 32, 32, 5, k));
    EXPECT_TRUE(identical(got.at("images"), want.images)) << k;
    EXPECT_TRUE(identical(got.at("target"), want.labels));
    EXPECT_TRUE(identical(got.at("second_target"), want.others));
    EXPECT_TRUE(identical(got.at("share"), want.lambda));
    EXPECT_LT(want.lambda.data<float>()[0], 1);
  }
}

}  // namespace
}  // namespace foldgrad::testing
