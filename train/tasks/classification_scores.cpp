#include "train/tasks/classification_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/check.h"

namespace foldgrad {

ClassificationScores::ClassificationScores(std::vector<std::string> classes)
    : classes_(std::move(classes)), ranks_(classes_.size()), confusion_(classes_.size() * classes_.size()) {}

void ClassificationScores::add(const Tensor& logits, const Tensor& labels) {
  const auto K = std::int64_t(classes_.size()), B = labels.size();
  FOLDGRAD_CHECK(logits.shape() == (Shape{B, K}), "scores: logits must be [{}, {}], got {}", B, K, logits.shape());
  const Tensor exact = logits.to(DType::f64);
  for (std::int64_t b = 0; b < B; ++b) {
    const double* z = exact.data<double>() + b * K;
    const std::int64_t label = labels.data<std::int64_t>()[b];
    const double largest = *std::max_element(z, z + K);
    double sum = 0;
    for (std::int64_t k = 0; k < K; ++k) sum += std::exp(z[k] - largest);
    loss_ += std::log(sum) - (z[label] - largest);  // [CLS-1]
    // Neither is true of a logit that is not a number.
    const auto beats = [&](std::int64_t k, std::int64_t than) {
      return k != than && !(z[k] < z[than] || (z[k] == z[than] && k > than));
    };
    std::int64_t rank = 0;  // [CLS-2]
    for (std::int64_t k = 0; k < K; ++k) rank += beats(k, label);
    ++ranks_[std::size_t(rank)];
    for (std::int64_t predicted = 0; predicted < K; ++predicted) {
      bool beaten = false;
      for (std::int64_t k = 0; k < K && !beaten; ++k) beaten = beats(k, predicted);
      if (!beaten) ++confusion_[std::size_t(label * K + predicted)];
    }
    ++images_;
  }
}

double ClassificationScores::top(std::int64_t k) const {
  const auto end = ranks_.begin() + std::min<std::int64_t>(k, std::int64_t(ranks_.size()));
  return 100 * double(std::accumulate(ranks_.begin(), end, std::int64_t(0))) / double(images_);
}

std::string ClassificationScores::confusions() const {
  const auto K = std::int64_t(classes_.size());
  std::string text;
  for (std::int64_t of = 0; of < K; ++of) {
    std::vector<std::pair<std::int64_t, std::int64_t>> wrong;  // images, class
    std::int64_t images = 0;
    for (std::int64_t k = 0; k < K; ++k) {
      images += count(of, k);
      if (k != of && count(of, k) > 0) wrong.push_back({count(of, k), k});
    }
    std::ranges::stable_sort(wrong, std::greater(), &std::pair<std::int64_t, std::int64_t>::first);
    text += fmt::format("{}: {} of {} right", classes_[std::size_t(of)], count(of, of), images);
    for (std::size_t i = 0; i < wrong.size(); ++i)
      text +=
          fmt::format("{} {} {}", i == 0 ? "; taken for" : ",", wrong[i].first, classes_[std::size_t(wrong[i].second)]);
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

}  // namespace foldgrad
