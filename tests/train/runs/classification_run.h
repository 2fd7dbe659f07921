// Runs on images, on CIFAR's files that a test has written and a vision Transformer as small as one can be by default.
#pragma once
#include <omp.h>

#include <random>

#include "tests/harness/compare.h"
#include "tests/train/runs/numbers.h"
#include "train/data/images/cifar.h"
#include "train/runs/training_run.h"

namespace foldgrad::testing {

inline std::string image_config(const std::string& model, const std::string& data, int batch) {
  return fmt::format(R"([model]
{}
width = 8
ffn_width = 8
heads = 2
layers = 1
[norm]
name = "un"
[norm.un]
warmup = 4
[data]
{}
[train]
steps = 3
batch = {}
lr = 1e-2
initial_lr = 1e-3
warmup = 2
[validate]
every = 3
[output]
log_every = 1
save_every = 1
keep = 99
)",
                     model, data, batch);
}

inline const std::string kVitConfig =
    image_config("family = \"vit\"\npatch = 8\npooling = \"mean\"", "valid_images = 0", 12);
// A Compact Convolutional Transformer on drawn shapes, of few channels and, by the kernel's stride of two, few
// pixels.
inline const std::string kCctConfig =
    image_config("family = \"cct\"\nstem = \"hybrid\"\nkernel = 7\nattention_dropout = 0",
                 "task = \"shapes\"\ntrain_images = 12\nvalid_images = 4", 6);

// A bright square on dark noise: where it lies is the class.
inline ImageSet squares(std::int64_t count, unsigned seed) {
  ImageSet images{
      Tensor::empty({count, 32, 32, 3}, DType::u8), Tensor::empty({count}, DType::i64), {"above", "below", "left"}};
  std::mt19937 random(seed);
  for (std::int64_t i = 0; i < images.pixels.size(); ++i)
    images.pixels.data<std::uint8_t>()[i] = std::uint8_t(random() % 90);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t k = images.labels.data<std::int64_t>()[i] = i % 3, top = k == 1 ? 18 : 4, left = k == 2 ? 4 : 18;
    for (std::int64_t y = top; y < top + 10; ++y)
      for (std::int64_t x = left; x < left + 10; ++x)
        for (std::int64_t c = 0; c < 3; ++c)
          images.pixels.data<std::uint8_t>()[((i * 32 + y) * 32 + x) * 3 + c] = std::uint8_t(160 + random() % 90);
  }
  return images;
}

class ClassificationRun : public ProgramFiles {
 protected:
  explicit ClassificationRun(const std::string& config = kVitConfig) {
    omp_set_num_threads(1);  // such small products are slower with more
    write_cifar10(files_ / "cifar-10-batches-bin", squares(48, 1), squares(24, 2));
    write_bytes(files_ / "config.toml", config);
  }

  // `settings` with semicolons between.
  int train(const std::string& out, const std::string& settings = "", const std::string& resume = "") {
    TrainOptions options;
    options.config = files_ / "config.toml", options.data_directory = files_.path();
    options.out = files_ / out, options.resume = resume;
    std::istringstream all(settings);
    for (std::string one; std::getline(all, one, ';');)
      if (!one.empty()) options.settings.push_back(one);
    const TrainingEnd end = train_experiment(options);
    text_ = end.text;
    return end.exit_code;
  }
  RunNumbers numbers(const std::string& settings) {
    const std::string out = fmt::format("run{}", runs_++);
    std::string outcome;
    try {
      outcome = std::to_string(train(out, settings));
    } catch (const std::exception& e) {
      return {{"outcome", e.what()}};
    }
    return numbers_of_run(files_ / out);
  }
  std::string refusal(const std::string& settings) {
    std::string message = message_of([&] { train(fmt::format("run{}", runs_++), settings); });
    const std::size_t at = message.find(files_.path());
    return at == std::string::npos ? message : message.replace(at, files_.path().size(), "FILES");
  }

  // Runs with a setting that changes something, beside others without; what the change is seen in first.
  struct Effect {
    const char *base, *change, *differs;
  };
  void expect_effects(const std::vector<Effect>& effects) {
    std::map<std::string, RunNumbers> bases;
    for (const auto& [base, change, differs] : effects) {
      const std::string with = std::string(base) + ";" + change;
      if (!bases.count(base)) bases[base] = numbers(base);
      EXPECT_EQ(differences(bases[base], numbers(with)).at(0), differs) << with;
    }
  }

  int runs_ = 0;
  std::string text_;  // that the last training ended with
};

}  // namespace foldgrad::testing
