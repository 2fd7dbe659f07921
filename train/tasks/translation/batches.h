// Training pairs in batches of similar length, as fairseq makes them.
//
//   [BAT-1]  Order: all pairs are shuffled once with the seed, then sorted by source length. Pairs with equal source
//            lengths are sorted by target length, and the rest stay in shuffled order.
//   [BAT-2]  Batches are filled in that order while pairs * max(longest source, longest target) <= max_tokens. The
//            number of pairs of a batch is a multiple of `multiple`, or less than `multiple`.
//   [BAT-3]  The set of batches is the same in every epoch; their order is drawn anew from the seed and the epoch.
//   [BAT-4]  The decoder's input is the target with its last token, eos, moved to the front.
//
// In fairseq, a batch that begins with the remainder of the previous one may exceed max_tokens, and the last batch may
// have any number of pairs; here [BAT-2] holds for all batches. The random numbers are not NumPy's.
#pragma once
#include <cstdint>
#include <vector>

#include "models/transformer/transformer.h"
#include "train/loop/prefetched.h"

namespace foldgrad {

struct EncodedPairs {
  std::vector<Ids> source, target;  // of equal size; each sequence ends with kEos
};

struct BatchOptions {
  std::int64_t max_tokens = 4096;
  std::int64_t multiple = 8;
  std::uint64_t seed = 1;
  bool prefetch = false;
  bool shuffle = true;  // false for validation: batches, and pairs of equal length, keep their order
};

struct Batch {
  std::vector<std::int64_t> pairs;  // indices into the encoded pairs
  TranslationBatch sentences;       // on the CPU
  // Both count the end token eos.
  std::int64_t source_tokens() const { return sentences.source.rows.rows(); }
  std::int64_t target_tokens() const { return sentences.target.size(); }
};

// Makes a batch of the pairs with these indices.
Batch batch_of(const EncodedPairs& all, const std::vector<std::int64_t>& pairs);

class Batches : public Prefetched<Batch> {
 public:
  // Throws std::invalid_argument if there are no pairs, if the numbers of sources and targets differ, if a side does
  // not end with kEos or is longer than max_tokens, or if an option is below 1.
  Batches(EncodedPairs pairs, const BatchOptions& options);
};

}  // namespace foldgrad
