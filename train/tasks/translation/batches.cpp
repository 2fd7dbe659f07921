#include "train/tasks/translation/batches.h"

#include <algorithm>
#include <memory>

#include "engine/check.h"
#include "models/transformer/batch.h"
#include "train/loop/permutation.h"

namespace foldgrad {
namespace {

// Streams of random numbers: one for the order of pairs, and one, whose step is the epoch, for the order of batches.
constexpr std::uint32_t kPairStream = 0x70616972, kBatchStream = 0x62617463;  // "pair", "batc"

std::vector<std::int64_t> in_order(std::size_t n, const BatchOptions& options, Random random) {
  return options.shuffle ? permutation(std::int64_t(n), random) : counting(std::int64_t(n));
}

EncodedPairs checked(EncodedPairs pairs, const BatchOptions& options) {
  FOLDGRAD_CHECK(options.max_tokens >= 1, "batches: max_tokens must be at least 1, got {}", options.max_tokens);
  FOLDGRAD_CHECK(options.multiple >= 1, "batches: multiple must be at least 1, got {}", options.multiple);
  FOLDGRAD_CHECK(pairs.source.size() == pairs.target.size(),
                 "batches: there must be as many targets as sources, got {} sources and {} targets",
                 pairs.source.size(), pairs.target.size());
  FOLDGRAD_CHECK(!pairs.source.empty(), "batches: there must be at least one pair, got 0");
  for (const auto& [name, side] : {std::pair("source", &pairs.source), std::pair("target", &pairs.target)})
    for (std::size_t i = 0; i < side->size(); ++i) {
      const Ids& ids = (*side)[i];
      FOLDGRAD_CHECK(!ids.empty() && ids.back() == kEos, "batches: the {} of pair {} must end with eos", name, i);
      FOLDGRAD_CHECK(std::int64_t(ids.size()) <= options.max_tokens,
                     "batches: the {} of pair {} must have at most max_tokens = {} tokens, got {}", name, i,
                     options.max_tokens, ids.size());
    }
  return pairs;
}

std::vector<std::int64_t> ordered(const EncodedPairs& pairs, const BatchOptions& options) {
  std::vector<std::int64_t> order =
      in_order(pairs.source.size(), options, {.seed = options.seed, .stream = kPairStream});
  for (const std::vector<Ids>* side : {&pairs.target, &pairs.source})
    std::ranges::stable_sort(order,  // [BAT-1]
                             [&](std::int64_t a, std::int64_t b) { return (*side)[a].size() < (*side)[b].size(); });
  return order;
}

std::vector<std::vector<std::int64_t>> batches_of(const EncodedPairs& pairs, const BatchOptions& options) {
  std::vector<std::vector<std::int64_t>> batches;
  std::vector<std::int64_t> open;
  const auto close = [&] {
    const auto rows = std::int64_t(open.size()), multiple = options.multiple;
    const auto end = open.begin() + (rows < multiple ? rows : rows / multiple * multiple);  // [BAT-2]
    batches.emplace_back(open.begin(), end);
    open.erase(open.begin(), end);
  };
  const auto length = [&](std::int64_t i) {
    return std::int64_t(std::max(pairs.source[i].size(), pairs.target[i].size()));
  };
  const auto is_full_with = [&](std::int64_t i) {
    std::int64_t longest = length(i);
    for (const std::int64_t other : open) longest = std::max(longest, length(other));
    return std::int64_t(open.size() + 1) * longest > options.max_tokens;  // [BAT-2]
  };
  for (const std::int64_t i : ordered(pairs, options)) {
    while (!open.empty() && is_full_with(i)) close();
    open.push_back(i);
  }
  while (!open.empty()) close();
  return batches;
}

Prefetched<Batch>::Source source_of(EncodedPairs given, const BatchOptions& options) {
  const auto pairs = std::make_shared<const EncodedPairs>(checked(std::move(given), options));
  const auto batches = std::make_shared<const std::vector<std::vector<std::int64_t>>>(batches_of(*pairs, options));
  const auto order = [count = batches->size(), options](std::int64_t epoch) {  // [BAT-3]
    return in_order(count, options, {.seed = options.seed, .stream = kBatchStream, .step = std::uint32_t(epoch)});
  };
  return {.name = "batches",
          .per_epoch = std::int64_t(batches->size()),
          .order = order,
          .make = [=](const auto& places, DataCursor at) { return batch_of(*pairs, (*batches)[places[at.batch]]); },
          .prefetch = options.prefetch};
}

}  // namespace

Batch batch_of(const EncodedPairs& all, const std::vector<std::int64_t>& pairs) {  // [BAT-4]
  std::vector<Ids> sources, targets;
  for (const std::int64_t pair : pairs) {
    sources.push_back(all.source[pair]);
    targets.push_back(all.target[pair]);
  }
  return {pairs, make_batch(sources, targets)};
}

Batches::Batches(EncodedPairs pairs, const BatchOptions& options) : Prefetched(source_of(std::move(pairs), options)) {}

}  // namespace foldgrad
