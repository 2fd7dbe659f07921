#include "train/tasks/language/windows.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "engine/check.h"
#include "train/loop/permutation.h"

namespace foldgrad {
namespace {

// Streams of random numbers, whose step is the epoch.
constexpr std::uint32_t kOffsetStream = 0x6f666673, kWindowStream = 0x77696e64;  // "offs", "wind"

Prefetched<WindowBatch>::Source source_of(Ids text, const WindowOptions& o) {
  FOLDGRAD_CHECK(o.length >= 1 && o.size >= 1, "windows: length and size must be at least 1, got {} and {}", o.length,
                 o.size);
  const auto tokens = std::int64_t(text.size());
  FOLDGRAD_CHECK(tokens / o.length >= o.size + 1,
                 "a training text must have at least {} tokens for {} sequences of length {}, got {}",
                 o.length * (o.size + 1), o.size, o.length, tokens);
  const std::int64_t windows = tokens / o.length - 1;
  const auto shared = std::make_shared<const Ids>(std::move(text));
  return {.name = "windows",
          .per_epoch = windows / o.size,  // [WIN-2]
          .order =
              [=](std::int64_t epoch) {
                return permutation(windows, {o.seed, kWindowStream, std::uint32_t(epoch)});
              },
          .make =
              [=](const std::vector<std::int64_t>& order, DataCursor at) {
                const auto first = order.begin() + at.batch * o.size;
                const Random random{o.seed, kOffsetStream, std::uint32_t(at.epoch)};
                const std::int64_t offset = draw_below(random.bits(0), o.length);  // [WIN-1]
                return windows_of(*shared, o.length, {first, first + o.size}, offset);
              },
          .prefetch = o.prefetch};
}

}  // namespace

Windows::Windows(Ids text, const WindowOptions& options) : Prefetched(source_of(std::move(text), options)) {}

WindowBatch windows_of(const Ids& text, std::int64_t length, const std::vector<std::int64_t>& windows,
                       std::int64_t offset) {
  const Shape shape({std::int64_t(windows.size()), length});
  const WindowBatch batch{Tensor::empty(shape, DType::i64), Tensor::empty(shape, DType::i64)};
  std::int64_t *ids = batch.ids.data<std::int64_t>(), *target = batch.target.data<std::int64_t>();
  for (const std::int64_t window : windows) {
    const auto begin = text.begin() + offset + window * length;
    ids = std::copy_n(begin, length, ids), target = std::copy_n(begin + 1, length, target);
  }
  return batch;
}

std::vector<WindowBatch> windows_in_order(const Ids& text, std::int64_t length, std::int64_t size) {
  FOLDGRAD_CHECK(text.size() >= 2, "a text must have at least 2 tokens, got {}", text.size());
  const std::int64_t targets = std::int64_t(text.size()) - 1, whole = targets / length, rest = targets % length;
  std::vector<WindowBatch> all;
  for (std::int64_t first = 0; first < whole; first += size) {
    std::vector<std::int64_t> windows(std::size_t(std::min(size, whole - first)));
    std::iota(windows.begin(), windows.end(), first);
    all.push_back(windows_of(text, length, windows));
  }
  if (rest > 0) all.push_back(windows_of(text, rest, {0}, whole * length));
  return all;
}

}  // namespace foldgrad
