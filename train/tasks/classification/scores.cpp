#include "train/tasks/classification/scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/check.h"
#include "train/system/digest.h"
#include "train/tasks/classification/images/picture.h"

namespace foldgrad {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostClasses = 100;
constexpr std::int64_t kAugmentedImages = 6, kAugmentedEpochs = 7;

ordered_json picture_json(const std::uint8_t* pixels, std::int64_t height, std::int64_t width,
                          const std::string& caption) {
  const Picture picture{height, width, {pixels, pixels + height * width * kColours}};
  return {{"caption", caption}, {"png", base64(encode_png(picture))}};
}

// Makes an exhibit, to which add() adds the pictures if the build has libpng.
ordered_json pictures_exhibit(const std::string& title, const std::string& note, const auto& add) {
  ordered_json exhibit{{"title", title}, {"note", note}, {"pictures", ordered_json::array()}};
  if (png_available())
    add(exhibit["pictures"]);
  else
    exhibit["note"] = "No pictures: foldgrad was built without libpng.";
  return exhibit;
}

}  // namespace

ClassificationScores::ClassificationScores(std::vector<std::string> classes, std::size_t most_mistakes)
    : classes_(std::move(classes)),
      most_mistakes_(most_mistakes),
      ranks_(classes_.size()),
      confusion_(classes_.size() * classes_.size()) {}

void ClassificationScores::add(const Tensor& logits, const Tensor& labels, const Tensor& images) {
  const auto K = std::int64_t(classes_.size()), B = labels.size();
  FOLDGRAD_CHECK(logits.shape() == (Shape{B, K}), "scores: logits must be [{}, {}], got {}", B, K, logits.shape());
  const Tensor exact = logits.to(DType::f64);
  for (std::int64_t b = 0; b < B; ++b) {
    const double* z = exact.data<double>() + b * K;
    const std::int64_t label = labels.data<std::int64_t>()[b];
    const std::int64_t predicted = std::max_element(z, z + K) - z;
    double sum = 0;
    for (std::int64_t k = 0; k < K; ++k) sum += std::exp(z[k] - z[predicted]);
    const double loss = std::log(sum) - (z[label] - z[predicted]);  // [CLS-1]
    loss_ += loss;
    // If either logit is NaN, each beats the other.
    const auto beats = [&](std::int64_t k, std::int64_t than) {
      return k != than && !(z[k] < z[than] || (z[k] == z[than] && k > than));
    };
    std::int64_t rank = 0;  // [CLS-2]
    for (std::int64_t k = 0; k < K; ++k) rank += beats(k, label);
    ++ranks_[std::size_t(rank)];
    const bool numbers = std::none_of(z, z + K, [](double x) { return std::isnan(x); });
    if (numbers) ++confusion_[std::size_t(label * K + predicted)];
    if (predicted != label)
      mistakes_.push_back(
          {std::isnan(loss) ? INFINITY : loss, label, predicted, 1 / sum, images.slice(b, b + 1).clone()});
    ++images_;
  }
  std::ranges::stable_sort(mistakes_, std::greater(), &Mistake::loss);
  if (mistakes_.size() > most_mistakes_) mistakes_.resize(most_mistakes_);
}

double ClassificationScores::top(std::int64_t k) const {
  const auto end = ranks_.begin() + std::min<std::int64_t>(k, std::int64_t(ranks_.size()));
  return 100 * double(std::accumulate(ranks_.begin(), end, std::int64_t(0))) / double(images_);
}

std::string ClassificationScores::confusions() const {
  const auto K = std::int64_t(classes_.size());
  std::string text;
  for (std::int64_t of = 0; of < K; ++of) {
    std::vector<std::int64_t> wrong;  // predicted classes
    std::int64_t images = 0;
    for (std::int64_t k = 0; k < K; ++k) {
      images += count(of, k);
      if (k != of && count(of, k) > 0) wrong.push_back(k);
    }
    std::ranges::stable_sort(wrong, std::greater(), [&](std::int64_t k) { return count(of, k); });
    text += fmt::format("{}: {} of {} correct", classes_[std::size_t(of)], count(of, of), images);
    for (const std::int64_t k : wrong)
      text += fmt::format("{} {} {}", k == wrong[0] ? "; taken for" : ",", count(of, k), classes_[std::size_t(k)]);
    text += "\n";
  }
  return text;
}

Validation ClassificationScores::validation() const {
  const double top1 = top(1), top5 = top(5);
  const std::string text = fmt::format("top-1 {:.2f} %, top-5 {:.2f} %, loss {:.4f}", top1, top5, loss());
  return {.loss = loss(),
          .deciding = top1,
          .scores = {{"loss", loss()}, {"top1", top1}, {"top5", top5}},
          .text = fmt::format("{}, of {} images", text, images_),
          .short_text = text,
          .samples = confusions()};
}

ordered_json confusion_exhibit(const ClassificationScores& scores) {
  const std::vector<std::string>& classes = scores.classes();
  if (classes.size() > kMostClasses) return nullptr;
  ordered_json counts = ordered_json::array();
  for (std::size_t of = 0; of < classes.size(); ++of) {
    ordered_json row = ordered_json::array();
    for (std::size_t k = 0; k < classes.size(); ++k) row.push_back(scores.count(std::int64_t(of), std::int64_t(k)));
    counts.push_back(std::move(row));
  }
  return {{"title", "Confusions"},
          {"note", "Each row shows how the images of one class were classified; shades show fractions of the row."},
          {"matrix", {{"names", classes}, {"counts", counts}}}};
}

ordered_json mistakes_exhibit(const ClassificationScores& scores) {
  const std::vector<std::string>& classes = scores.classes();
  const auto add = [&](ordered_json& pictures) {
    for (const Mistake& m : scores.worst_mistakes())
      pictures.push_back(
          picture_json(m.image.data<std::uint8_t>(), m.image.shape()[1], m.image.shape()[2],
                       fmt::format("true {} ({:.1f} %), predicted {} ({:.1f} %)", classes[std::size_t(m.label)],
                                   100 * std::exp(-m.loss), classes[std::size_t(m.predicted)], 100 * m.certainty)));
  };
  return pictures_exhibit(
      "Worst mistakes", "Each image's true and predicted class, with the probabilities that the model assigns to them.",
      add);
}

ordered_json augmented_exhibit(const Augmentation& augmentation, const ImageSet& images,
                               const std::vector<std::int64_t>& rows, std::uint64_t seed) {
  if (!augmentation.changes()) return nullptr;
  ordered_json exhibit = pictures_exhibit(
      "Training images", "Some images, unchanged and as augmented in the first epochs of training.",
      [&](ordered_json& pictures) {
        std::vector<std::uint8_t> changed(std::size_t(images.image_bytes()));
        for (std::size_t i = 0; i < std::min<std::size_t>(rows.size(), kAugmentedImages); ++i) {
          const std::string& name = images.classes[std::size_t(images.label(rows[i]))];
          pictures.push_back(picture_json(images.image(rows[i]), images.height(), images.width(), name));
          for (std::int64_t epoch = 0; epoch < kAugmentedEpochs; ++epoch) {
            augment(augmentation, images, rows[i], seed, epoch, changed.data());
            pictures.push_back(
                picture_json(changed.data(), images.height(), images.width(), fmt::format("epoch {}", epoch)));
          }
        }
      });
  exhibit["columns"] = 1 + kAugmentedEpochs;
  return exhibit;
}

}  // namespace foldgrad
