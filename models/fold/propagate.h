// How an affine map per channel travels through operations that only move, select or average what it acts on.
#pragma once
#include "models/fold/fold.h"

namespace foldgrad {

// Index i of axis `axis` belongs to channel (i - offset) / repeat; indices before and behind belong to none.
struct ChannelPlace {
  int axis = 0;
  std::int64_t offset = 0, repeat = 1;
  bool operator==(const ChannelPlace&) const = default;
};

// A map that has not been applied to a value yet.
struct PendingMap {
  ChannelPlace place;
  AffineMap map;
  bool operator==(const PendingMap&) const = default;

  bool whole(const Shape& shape) const;  // the last axis, all of it
};

// Moves `pending` from operand use.operand of the node to its result: f(map(x)) = map'(f(x)). When that cannot be
// shown, returns why not; an empty text means that it is done.
std::string propagate(const Graph& graph, const GraphUse& use, PendingMap& pending);

}  // namespace foldgrad
