// Tests runs of a vision Transformer on images from CIFAR's files, from folders and from Tiny ImageNet's layout, and
// how a run reads or draws images.
#include "train/tasks/classification/classification.h"

#include "engine/contains.h"
#include "tests/train/runs/family_run.h"
#include "tests/train/runs/folded_run.h"
#include "tests/train/tasks/classification/images/png_file.h"
#include "train/checkpoints/model_directory.h"
#include "train/tasks/classification/images/folder.h"
#include "train/tasks/classification/images/picture.h"
#include "train/tasks/classification/images/shapes.h"

namespace foldgrad::testing {
namespace {

TEST_F(ClassificationRun, LearnsReportsHowWellAndFolds) {
  ASSERT_EQ(train("run", "train.steps=40;validate.every=20;output.save_every=40"), 0);
  const auto validations = events("run", "validate");
  ASSERT_EQ(validations.size(), 2u);
  EXPECT_EQ(validations[1].at("top1"), 100);
  EXPECT_EQ(validations[1].at("top5"), 100);
  EXPECT_LT(validations[1].at("loss"), 0.7);  // the initial loss is about ln 3
  EXPECT_GT(events("run", "train").back().at("images_per_second"), 0);
  EXPECT_EQ(events("run", "start").at(0).at("score"), "top1");
  EXPECT_EQ(bytes("run/samples/step-00000040.txt"),
            "above: 8 of 8 correct\nbelow: 8 of 8 correct\nleft: 8 of 8 correct\n");
  const auto exhibits = nlohmann::json::parse(bytes("run/exhibits.json"));
  ASSERT_EQ(exhibits.size(), 2u);
  EXPECT_EQ(exhibits[0].at("matrix").at("counts"), (nlohmann::json{{8, 0, 0}, {0, 8, 0}, {0, 0, 8}}));
  EXPECT_TRUE(exhibits[1].at("pictures").empty());  // pictures show mistakes, but there are none
  const auto environment = nlohmann::json::parse(bytes("run/env.json")).dump();
  for (const char* file : {"data_batch_3.bin", "test_batch.bin", "batches.meta.txt"})
    EXPECT_TRUE(contains(environment, file)) << file;
  const auto config = nlohmann::json::parse(read_bytes(find_model_directory(files_ / "run") + "/config.json"));
  EXPECT_EQ(config.at("format"), "foldgrad vit");
  EXPECT_EQ(config.at("model").at("class_names").at(2), "left");
  const ImageStatistics pixels = image_statistics(squares(48, 1));
  EXPECT_EQ(config.at("model").at("image_mean").at(1), pixels.mean[1]);
  EXPECT_EQ(config.at("model").at("image_std").at(2), pixels.std[2]);
  EXPECT_TRUE(foldgrad::contains(expect_folds(files_ / "run"), "results do not depend on other images in the batch"));
}

TEST_F(ClassificationRun, EveryKeyOfTheFamilyChangesWhatItSaysAndNothingBefore) {
  write_cifar10(files_ / "other", squares(48, 3), squares(24, 2));
  expect_effects(kEffectsOfBlocks);
  expect_effects(kEffectsOfImageModels);
  expect_effects({{"", "model.patch=4", "shapes"},
                  {"", "model.pooling=cls", "shapes"},
                  {"", "model.qkv_bias=true", "shapes"},
                  {"", "model.pre_norm=false", "shapes"},
                  {"", "model.fc_norm=true", "shapes"},
                  {"", "data.task=cifar100", "outcome"},  // the files of this task do not exist
                  {"", "data.directory=other", "loss 1"},
                  {"", "data.augment=crop4", "loss 1"},
                  {"data.augment=crop4", "data.fill=zero", "loss 1"},
                  {"train.batch=8", "data.train_images=8", "loss 1"},
                  {"train.batch=8", "data.valid_images=12", "loss 1"},
                  {"", "train.batch=8", "work 1"},
                  {"", "train.mixup=0.5", "loss 1"},
                  {"", "train.cutmix=0.5", "loss 1"},
                  // Each update is an epoch, so mixing ends after the first of three updates.
                  {"train.batch=48;train.mixup=0.5", "train.mix_off_epoch=1", "weights end"}});
}

TEST_F(ClassificationRun, RefusesWhatCannotBe) {
  EXPECT_EQ(refusal("data.task=folder"), "data.task = \"folder\" needs data.directory, the path of the folder");
  EXPECT_EQ(refusal("data.directory=absent"),
            "@absent: there is no such directory; CIFAR's files are expected below --data-dir, $FOLDGRAD_DATA or "
            "~/.cache/foldgrad");
  EXPECT_EQ(refusal("data.augment=flop"),
            "data.augment: augmentation: a name must be one of crop4 (or another number), flip, flip_alternating, "
            "randaugment2m9 (1 to 8 operations of magnitude 0 to 10), cutout8, got \"flop\"");
  EXPECT_TRUE(refusal("train.batch=49")
                  .ends_with(": train.batch = 49 must be at most the number of training images, which is 48 with "
                             "data.train_images = 0 and data.valid_images = 0"));
  EXPECT_TRUE(begins(refusal("data.valid_images=48"), "data.valid_images = 48 must leave images to train on: "));
  EXPECT_EQ(refusal("data.task=shapes;data.train_images=10000001"),
            "data.train_images must be at most 10000000 with data.task = \"shapes\", got 10000001");
  EXPECT_EQ(refusal("model.heads=3"), "model.heads must divide model.width = 8, got 3");
  EXPECT_EQ(refusal("norm.name=groupnorm;norm.groupnorm.groups=3"),
            "norm.groupnorm.groups must divide the number of channels, 8, got 3");
}

TEST_F(ClassificationRun, OneClassTakesNoLabelSmoothing) {
  if (!png_available()) GTEST_SKIP() << "this build lacks libpng";
  for (const char* part : {"train", "test"})
    for (int i = 0; i < 4; ++i)
      write(fmt::format("one/{}/ant/{}.png", part, i), png_file(2, 2, 8, PngColour::gray, std::string(4, char(i))));
  const std::string settings = "data.task=folder;data.directory=one;data.image_size=16;train.batch=4;train.steps=1";
  EXPECT_EQ(refusal(settings + ";train.label_smoothing=0.1"),
            "@one: has only one class, \"ant\"; in this case train.label_smoothing must be 0, got 0.1");
  EXPECT_EQ(train("one", settings + ";train.label_smoothing=0"), 0);
}

// The squares are stored as PNG files of 32 x 32 pixels. The run scales them to 16 x 16.
TEST_F(ClassificationRun, LearnsFromPicturesInFolders) {
  if (!png_available()) GTEST_SKIP() << "this build lacks libpng";
  for (const auto& [part, images] : {std::pair("train", squares(48, 1)), std::pair("test", squares(24, 2))})
    for (std::int64_t i = 0; i < images.size(); ++i) {
      const auto* pixels = reinterpret_cast<const char*>(images.image(i));
      write(fmt::format("pictures/{}/{}/{:02}.png", part, images.classes[images.label(i)], i),
            png_file(32, 32, 8, PngColour::rgb, {pixels, pixels + images.image_bytes()}));
    }
  const std::string settings = "data.task=folder;data.directory=pictures;data.image_size=16;train.steps=";
  ASSERT_EQ(train("run", settings + "40"), 0);
  EXPECT_EQ(events("run", "validate").back().at("top1"), 100);
  const auto config = nlohmann::json::parse(read_bytes(find_model_directory(files_ / "run") + "/config.json"));
  EXPECT_EQ(config.at("model").at("image_size"), 16);
  EXPECT_EQ(config.at("model").at("class_names"), (nlohmann::json{"above", "below", "left"}));
  const auto digests = nlohmann::json::parse(bytes("run/env.json")).at("data");
  EXPECT_EQ(digests.at("test"), digest_of(read_folder(files_ / "pictures", ImagePart::test, 16)));
  EXPECT_EQ(digests.at("train"), digest_of(read_folder(files_ / "pictures", ImagePart::train, 16)));
  EXPECT_EQ(differences(numbers(settings + "3"), numbers(settings + "3;data.image_size=8")).at(0), "shapes");
}

// The validation set contains only dogs.
TEST_F(ClassificationRun, LearnsFromTinyImageNetsLayout) {
  if (!png_available()) GTEST_SKIP() << "this build lacks libpng";
  for (const int i : {0, 1})
    for (const char* name : {"train/cat/images/a", "train/dog/images/b", "val/images/v"})
      write(fmt::format("tiny/{}{}.png", name, i), png_file(2, 2, 8, PngColour::gray, std::string(4, char(60 * i))));
  const std::string settings = "data.task=tinyimagenet;data.directory=tiny;data.image_size=16;train.batch=4";
  write("tiny/val/val_annotations.txt", "v0.png\tdog\nv1.png\tdog\n");
  ASSERT_EQ(train("run", settings + ";train.steps=1"), 0);
  EXPECT_TRUE(contains(bytes("run/samples/step-00000001.txt"), "cat: 0 of 0 correct\ndog: "));
  EXPECT_EQ(refusal("data.task=tinyimagenet"),
            "data.task = \"tinyimagenet\" needs data.directory, the path of the folder");
}

TEST_F(ClassificationRun, HoldsOutImagesThatItDoesNotLearnFrom) {
  ImageConfig config;
  config.valid_images = 12, config.train_images = 20;
  const ClassificationData data = read_images(config, files_.path());
  EXPECT_EQ(data.train.rows.size(), 20u);
  EXPECT_EQ(data.valid.rows.size(), 12u);
  for (const std::int64_t row : data.valid.rows)
    EXPECT_EQ(std::count(data.train.rows.begin(), data.train.rows.end(), row), 0) << row;
  EXPECT_EQ(data.valid.images.size(), 48);
  EXPECT_EQ(data.digests.count("test_batch.bin"), 0u);
  EXPECT_EQ(read_images({}, files_.path()).valid.rows.size(), 24u);
}

TEST(ReadImages, SayWhereTheyWereLookedForAndHowToFetchThem) {
  EXPECT_EQ(message_of([] { read_images({}, "/absent"); }),
            "/absent/cifar-10-batches-bin: there is no such directory; CIFAR's files are expected below --data-dir, "
            "$FOLDGRAD_DATA or ~/.cache/foldgrad; `foldgrad data fetch cifar10` creates this directory (docs/data.md)");
}

TEST(ReadImages, ShapesNeedNoFilesAndDrawWhatTheyAreValidatedOn) {
  ImageConfig config;
  config.task = ImageTask::shapes, config.valid_images = 10, config.train_images = 50;
  const ClassificationData data = read_images(config, "/absent");
  EXPECT_EQ(data.train.rows.size(), 50u);
  EXPECT_EQ(data.train.images.size(), 50);
  EXPECT_EQ(data.valid.rows.size(), 10u);
  EXPECT_FALSE(data.valid_is_test);
  EXPECT_EQ(data.train.images.classes, shapes::classes());
  EXPECT_TRUE(data.digests.empty());
  std::vector<std::uint8_t> drawn(std::size_t(data.valid.images.image_bytes()));
  for (const auto& [part, same] :
       {std::pair(ImagePart::train, false), {ImagePart::test, false}, {ImagePart::valid, true}}) {
    shapes::draw(part, 3, 1, drawn.data());
    EXPECT_EQ(std::equal(drawn.begin(), drawn.end(), data.valid.images.image(3)), same);
  }
}

TEST(ReadImages, SplitsAreWhatARunHas) {
  ImageConfig config;
  config.task = ImageTask::shapes, config.valid_images = 10, config.train_images = 20;
  EXPECT_EQ(read_split(config, "", "train").rows.size(), 20u);
  EXPECT_EQ(read_split(config, "", "valid").rows.size(), 10u);
  EXPECT_EQ(read_split(config, "", "test").rows.size(), 10000u);
  EXPECT_EQ(message_of([&] { read_split(config, "", "tset"); }),
            "the split of images must be train, valid or test, got tset");
  config.valid_images = 0;
  EXPECT_EQ(message_of([&] { read_split(config, "", "valid"); }),
            "there is no split valid: with data.valid_images = 0, validation uses the test images");
}

}  // namespace
}  // namespace foldgrad::testing
