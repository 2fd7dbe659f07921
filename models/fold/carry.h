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
struct Waiting {
  ChannelPlace place;
  AffineMap map;
  bool operator==(const Waiting&) const = default;

  bool whole(const Shape& shape) const;  // the last axis, all of it
};

// Moves `waiting` from operand use.operand of the node to its result: f(map(x)) = map'(f(x)). When that cannot be
// shown, returns why not; an empty text means that it is done.
std::string carry(const Graph& graph, const GraphUse& use, Waiting& waiting);

}  // namespace foldgrad
