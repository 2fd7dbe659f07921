// A text in windows of equal length, each with what follows every token of it.
//
//   [WIN-1]  An epoch draws an offset o in [0, T) from the seed and the epoch. Window k of it has the tokens from
//            o + k T on, as many windows as there are for every offset.
//   [WIN-2]  They come in an order drawn anew, B in a batch; the rest, fewer than B, is left out.
#pragma once
#include "engine/named_tensors.h"
#include "models/transformer/ids.h"
#include "train/data/prefetched.h"

namespace foldgrad {

struct WindowBatch {
  Tensor ids, target;  // i64 [B, T], on the CPU
  NamedTensors named() const { return {{"ids", ids}, {"target", target}}; }
};

struct WindowOptions {
  std::int64_t length = 256, size = 64;  // T tokens; B windows
  std::uint64_t seed = 1;
  bool prefetch = false;
};

// Windows to train on.
class Windows : public Prefetched<WindowBatch> {
 public:
  // Throws std::invalid_argument for options below 1, and fewer than T (B + 1) tokens.
  Windows(Ids text, const WindowOptions& options);
};

// Returns the windows with these numbers, counted from 0. The text must have `length` + 1 tokens from the beginning of
// each on.
WindowBatch windows_of(const Ids& text, std::int64_t length, const std::vector<std::int64_t>& windows,
                       std::int64_t offset = 0);
// Covers a text, so that every token but the first is a target exactly once: at most `size` windows in a batch, and
// what is left as a last batch of one shorter window. Throws std::invalid_argument for fewer than two tokens.
std::vector<WindowBatch> windows_in_order(const Ids& text, std::int64_t length, std::int64_t size);

}  // namespace foldgrad
