// The properties of an operation that readers of a recording need: folding, export, drawing, analyses. An operation
// states them in Node::describe(), in its own folder, so readers need no list of operations.
#pragma once
#include <vector>

#include "engine/tape.h"

namespace foldgrad {

struct Description {
  // Operand numbers; -1 if the operation has no such operand.
  int weight = -1;                // [out, channels, ...], multiplies the last axis of operand 0
  int bias = -1;                  // [out], added to that product or to operand 0 before any other step
  int table = -1;                 // [rows, C]; rows of the table times `scale` are the result
  int positions = -1;             // [T, C], added to operand 0
  std::vector<int> streams = {};  // terms of a sum that may be a residual stream

  double scale = 1;
  double dropout = 0;        // probability that an element is dropped
  bool pads = false;         // pads operand 0 with zeros
  bool activates = false;    // ends in a nonlinear function
  bool sums_to_one = false;  // each row of the result, along the last axis, sums to one, whatever the operands
  bool training = false;     // used statistics of the batch

  // The result's numbers. same: those of operand 0, in the same order in memory. same_rows: each row along the last
  // axis is a row of operand 0. computed: all others.
  enum class Numbers { computed, same_rows, same } numbers = Numbers::computed;

  static Description of(const Node& node) {
    Description description;
    node.describe(description);
    return description;
  }
};

}  // namespace foldgrad
