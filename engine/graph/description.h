// The properties of an operation that readers of a recording need: folding, export, drawing, analyses.
//
// An operation states them in Node::describe(), in its own folder, so that no reader knows operations by their names.
#pragma once
#include <vector>

#include "engine/tape.h"

namespace foldgrad {

struct Description {
  // Operands by their position, -1 where the operation has none.
  int weight = -1;                // [out, channels, ...], multiplies the last axis of operand 0
  int bias = -1;                  // [out], added to that product or to operand 0, before anything else happens
  int table = -1;                 // [rows, C], whose rows times `scale` are the result
  int positions = -1;             // [T, C], added to operand 0
  std::vector<int> streams = {};  // the terms of a sum that may be a residual stream

  double scale = 1;
  double dropout = 0;        // probability that an element is dropped
  bool pads = false;         // zeros stand around operand 0
  bool activates = false;    // ends in a function that is not linear
  bool sums_to_one = false;  // each row of the result does, along the last axis, whatever the operands are
  bool training = false;     // statistics of the batch were used

  // The numbers of the result: computed; those of operand 0 in other rows, each row along the last axis as it was; or
  // those of operand 0 as they lie in memory, in another shape or type.
  enum class Numbers { computed, same_rows, same } numbers = Numbers::computed;

  static Description of(const Node& node) {
    Description description;
    node.describe(description);
    return description;
  }
};

}  // namespace foldgrad
