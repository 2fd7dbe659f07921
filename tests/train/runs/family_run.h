// Fixtures for small runs of several families of models. The runs train on images of squares in CIFAR's format, on
// drawn shapes, or on a text of a few words.
#pragma once
#include <random>

#include "tests/train/runs/settings_run.h"
#include "train/tasks/classification/images/cifar.h"

namespace foldgrad::testing {

inline const std::string kFewShapes = "task = \"shapes\"\ntrain_images = 12\nvalid_images = 4";
inline const std::string kVitConfig =
    settings_config("family = \"vit\"\npatch = 8\npooling = \"mean\"", "valid_images = 0", 12);
// A small Compact Convolutional Transformer. With kernel = 7 its convolutions have a stride of two, so there are few
// tokens.
inline const std::string kCctConfig =
    settings_config("family = \"cct\"\nstem = \"hybrid\"\nkernel = 7\nattention_dropout = 0", kFewShapes, 6);
// The three stages have 8 x 8, 4 x 4 and 4 x 4 tokens.
inline const std::string kT2tConfig = settings_config(
    "family = \"t2t\"\nkernels = [7, 3, 3]\nstrides = [4, 2, 1]\npaddings = [3, 1, 1]\n"
    "token_width = 8\ntoken_dropout = 0",
    kFewShapes, 6);
// The first stage has four windows and two layers; the second layer shifts windows. The second stage has one window.
inline const std::string kSwinConfig = run_config(
    "family = \"swin\"\npatch = 8\nwindow = 2\ndepths = [2, 1]\nwidth = 8\nffn_width = 8\nheads = 2", kFewShapes, 6);
inline const std::string kConvNextConfig =
    run_config("family = \"convnext\"\nchannels = [4, 8]\ndepths = [1, 1]\npatch = 8", kFewShapes, 6);
inline const std::string kNfNetConfig =
    run_config("family = \"nfnet\"\nchannels = [16]\ndepths = [2]\ngroup_size = 8\ndrop_path = 0", kFewShapes, 6);
inline const std::string kGptConfig =
    settings_config("family = \"gpt\"\ncontext = 8\ndropout = 0\nattention_dropout = 0", "directory = \"text\"", 4);

// The effects of the keys that vit, cct, t2t and gpt share (kEffectsOfBlocks), and of more keys that vit and cct share
// (kEffectsOfImageModels).
inline const std::vector<Effect> kEffectsOfBlocks{{"", "model.width=16", "shapes"},
                                                  {"", "model.ffn_width=16", "shapes"},
                                                  {"", "model.layers=2", "shapes"},
                                                  {"", "model.activation=relu", "loss 1"},
                                                  {"", "model.dropout=0.4", "loss 1"},
                                                  {"", "model.attention_dropout=0.4", "loss 1"},
                                                  {"", "model.activation_dropout=0.4", "loss 1"},
                                                  {"", "norm.name=ln", "loss 1"}};
inline const std::vector<Effect> kEffectsOfImageModels{
    {"model.initialization=pytorch", "model.heads=1", "loss 1"},
    {"", "model.initialization=pytorch", "loss 1"},
    {"model.initialization=tfixup", "model.tfixup_scope=all", "loss 1"},
    {"model.layers=2", "model.drop_path=0.5", "loss 1"},
    {"", "model.weight_standardization=true", "shapes"},
    {"model.weight_standardization=true", "model.standardization_scope=out_ffn", "shapes"},
    {"", "model.positions=sinusoidal", "loss 1"}};

// Returns images of a bright square on dark noise. The position of the square determines the class.
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

class ClassificationRun : public SettingsRun {
 protected:
  explicit ClassificationRun(const std::string& config = kVitConfig) : SettingsRun(config) {
    write_cifar10(files_ / "cifar-10-batches-bin", squares(48, 1), squares(24, 2));
  }
};

// Returns a text of 545 characters. It has 14 distinct characters, and each tenth of the text contains all of them.
inline std::string few_words() {
  const std::vector<std::string> words{"das", "alte", "haus", "steht", "l\u00f6w", "in"};
  std::string text;
  for (std::size_t i = 0; i < 120; ++i) text += words[i * i % 11 % 7] + (i % 4 == 3 ? "\n" : " ");  // indices 0 to 5
  return text;
}

inline void write_language_text(const std::string& directory, const std::string& text = few_words()) {
  std::filesystem::create_directories(directory + "/text");
  write_bytes(directory + "/text/a.txt", text);
}

class LanguageRun : public SettingsRun {
 protected:
  LanguageRun() : SettingsRun(kGptConfig) { write_language_text(files_.path()); }
};

class AnyFamilyRun : public ClassificationRun {
 protected:
  explicit AnyFamilyRun(const std::string& config = kVitConfig) : ClassificationRun(config) {
    write_tiny_text(files_.path());
    write_language_text(files_.path());
  }
};

}  // namespace foldgrad::testing
