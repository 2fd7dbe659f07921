// Cuts a text into windows of equal length. The target of each token is the next token.
//
//   [WIN-1]  An epoch draws an offset o in [0, T) from the seed and the epoch. Its window k has the T tokens starting
//            at o + k T. Every epoch has the same number of windows, the most that fit for every offset.
//   [WIN-2]  The order of the windows is drawn anew. A batch has B windows; the remaining windows are left out.
#pragma once
#include "engine/named_tensors.h"
#include "models/transformer/ids.h"
#include "train/loop/prefetched.h"

namespace foldgrad {

struct WindowBatch {
  Tensor ids, target;  // i64 [B, T], on the CPU
  NamedTensors named() const { return {{"ids", ids}, {"target", target}}; }
};

struct WindowOptions {
  std::int64_t length = 256, size = 64;  // T, the number of tokens per window, and B, the number of windows per batch
  std::uint64_t seed = 1;
  bool prefetch = false;
};

// Windows to train on.
class Windows : public Prefetched<WindowBatch> {
 public:
  // Throws std::invalid_argument for options below 1, and for fewer than T (B + 1) tokens.
  Windows(Ids text, const WindowOptions& options);
};

// Returns the windows whose numbers are in `windows`. Window k begins at token offset + k * length; the text must have
// length + 1 tokens starting at that token.
WindowBatch windows_of(const Ids& text, std::int64_t length, const std::vector<std::int64_t>& windows,
                       std::int64_t offset = 0);
// Returns batches that cover a text, so that every token except the first is a target exactly once: batches of at most
// `size` windows, then a batch with one shorter window for the rest. Throws std::invalid_argument for fewer than two
// tokens.
std::vector<WindowBatch> windows_in_order(const Ids& text, std::int64_t length, std::int64_t size);

}  // namespace foldgrad
