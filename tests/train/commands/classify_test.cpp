#include <cmath>

#include "models/fold/model.h"
#include "tests/models/vit/tiny_vit.h"
#include "tests/train/model_program.h"
#include "tests/train/tasks/classification/images/png_file.h"
#include "train/tasks/classification/images/picture.h"

namespace foldgrad::testing {
namespace {

using nlohmann::json;

class ClassifyCommand : public ModelProgram {
 protected:
  ClassifyCommand() {
    VitConfig config = tiny_vit("un");
    config.classes = 7, config.class_names = {"ape", "bee", "cat", "dog", "eel", "fly", "gnu"};
    vit_ = std::make_unique<Vit>(config, 3);
    randomize(*vit_, 5);
    write_model_directory(files_ / "v", *vit_);
    std::string records;
    for (const int label : {4, 0, 6}) records += record(std::string(1, char(label)), label);
    write_bytes(files_ / "a.bin", records);
  }

  // Returns a CIFAR record with the bytes `labels` and with colour planes that depend on `seed`.
  static std::string record(const std::string& labels, int seed) {
    std::string planes(3 * 32 * 32, '\0');
    for (std::size_t i = 0; i < planes.size(); ++i) planes[i] = char(i * std::size_t(seed + 3) / 7 % 256);
    return labels + planes;
  }
  // Returns the model's probability of each class for a picture, computed by the definition of the softmax.
  std::map<std::string, double> probabilities(const Picture& picture) {
    const Tensor images = Tensor::of<std::uint8_t>({1, 4, 4, 3}, square(picture, 4).pixels);
    const std::vector<double> z = inference_logits(*vit_, {{"images", images}}, DType::f32).values<double>();
    double sum = 0;
    for (const double logit : z) sum += std::exp(logit);
    std::map<std::string, double> all;
    for (std::size_t k = 0; k < z.size(); ++k) all[vit_->config().class_names[k]] = std::exp(z[k]) / sum;
    return all;
  }
  static Picture picture_of(const std::string& record) {
    Picture picture{32, 32, std::vector<std::uint8_t>(32 * 32 * 3)};
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t p = 0; p < 1024; ++p)
        picture.pixels[p * 3 + c] = std::uint8_t(record[record.size() - 3072 + c * 1024 + p]);
    return picture;
  }
  // Checks that the answer lists the five most likely classes, the most likely one first.
  void expect_answer(const json& answer, const std::string& image, const Picture& picture) {
    EXPECT_EQ(answer.at("image"), image);
    std::map<std::string, double> rest = probabilities(picture);
    ASSERT_EQ(answer.at("classes").size(), 5u);
    for (const json& one : answer.at("classes")) {
      const auto likeliest = std::ranges::max_element(rest, {}, &std::pair<const std::string, double>::second);
      EXPECT_EQ(one.at("class"), likeliest->first);
      EXPECT_NEAR(one.at("probability").get<double>(), likeliest->second, 1e-6);  // logits are f32
      rest.erase(likeliest);
    }
  }

  std::unique_ptr<Vit> vit_;
};

TEST_F(ClassifyCommand, TellsTheLikeliestClassesOfRecords) {
  const json answers = parsed("classify --json @v @a.bin");
  ASSERT_EQ(answers.size(), 3u);
  const int labels[] = {4, 0, 6};
  const char* names[] = {"eel", "ape", "gnu"};
  for (int i = 0; i < 3; ++i) {
    expect_answer(answers[i], files_ / "a.bin:" + std::to_string(i), picture_of(record("", labels[i])));
    EXPECT_EQ(answers[i].at("label"), names[i]);
  }
  std::string lines;
  for (const int i : {2, 0}) {
    lines += fmt::format("{} ({})", answers[i].at("image").get<std::string>(), names[i]);
    const char* before = ":";
    for (const json& one : answers[i].at("classes")) {
      lines +=
          fmt::format("{} {} {:.4f}", before, one.at("class").get<std::string>(), one.at("probability").get<double>());
      before = ",";
    }
    lines += "\n";
  }
  EXPECT_EQ(output("classify @v @a.bin:2 @a.bin:0"), lines);
}

// The command classifies images in batches of 128. It recognizes records of CIFAR-100 by their size, and takes pictures
// of any size.
TEST_F(ClassifyCommand, ManyImagesComeInTheirOrder) {
  std::string records, samples(7 * 9 * 3, '\0');
  for (int i = 0; i < 130; ++i) records += record(std::string(1, char(i % 7)), i);
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = char(i * 37);
  write_bytes(files_ / "many.bin", records);
  write_bytes(files_ / "fine.bin", record({1, 5}, 2));
  // The file "odd.bin:1" takes precedence over record 1 of a file "odd.bin".
  write_bytes(files_ / "odd.bin:1", png_file(7, 9, 8, PngColour::rgb, samples));
  const json answers =
      parsed(std::string("classify --json @v @many.bin @fine.bin") + (png_available() ? " @odd.bin:1" : ""));
  ASSERT_EQ(answers.size(), 131u + png_available());
  for (const int i : {0, 127, 128, 129})
    expect_answer(answers[i], files_ / "many.bin:" + std::to_string(i), picture_of(record("", i)));
  expect_answer(answers[130], files_ / "fine.bin:0", picture_of(record("", 2)));
  EXPECT_EQ(answers[130].at("label"), "fly");
  if (!png_available()) GTEST_SKIP() << "this build lacks libpng";
  expect_answer(answers[131], files_ / "odd.bin:1", {9, 7, std::vector<std::uint8_t>(samples.begin(), samples.end())});
  EXPECT_FALSE(answers[131].contains("label"));
}

TEST_F(ClassifyCommand, AFoldedModelSaysTheSame) {
  write_model_directory(files_ / "folded", *fold(*vit_).model);
  expect_answer(parsed("classify --json @folded @a.bin:1")[0], files_ / "a.bin:1", picture_of(record("", 0)));
}

TEST_F(ClassifyCommand, ClassesWithoutNamesAreNumbered) {
  VitConfig config = tiny_vit("ln");
  write_model_directory(files_ / "nameless", Vit(config, 3));
  const json answer = parsed("classify --json @nameless @a.bin:1")[0];
  EXPECT_EQ(answer.at("label"), "class 0");
  EXPECT_EQ(answer.at("classes").size(), 5u);
}

TEST_F(ClassifyCommand, Errors) {
  expect_error("classify @v @absent.png", 3, "@absent.png: cannot be opened: No such file or directory");
  expect_error("classify @v @absent.bin:3", 3, "@absent.bin: cannot be opened: No such file or directory");
  expect_error("classify @v @in.de", 3, "@in.de: must be a PNG or JPEG file");
  expect_error("classify @v @a.bin:3", 3, "@a.bin: has 3 records, counted from 0: there is no record 3");
  expect_error("classify @v @a.bin:x", 3, "@a.bin:x: cannot be opened: No such file or directory");
  write_bytes(files_ / "seven.bin", record("\x07", 1));
  expect_error("classify @v @seven.bin", 3, "@seven.bin: record 0, byte 0: a label must be below 7, got 7");
  // If one image cannot be read, the command prints nothing about the other images.
  EXPECT_EQ(run("classify @v @a.bin @absent.png").out, "");
  expect_error("classify @m @a.bin", 4, "@m: must be a model that classifies images, but this is a transformer");
  expect_error("classify @no @a.bin", 4, "@no: there is no such file or directory");
  EXPECT_EQ(run("classify @v").exit_code, 2);
}

TEST_F(ClassifyCommand, WhatIsNotFiniteIsRefusedOrShown) {
  Tensor head = vit_->head().weight.value;
  head.copy_from(Tensor::full(head.shape(), 3e38, DType::f32));
  write_model_directory(files_ / "large", *vit_);
  expect_failure(run("classify @large @a.bin:0"), 5, "error: classify: the logits");
  EXPECT_EQ(run("classify --allow-non-finite @large @a.bin:0").exit_code, 0);
}

}  // namespace
}  // namespace foldgrad::testing
