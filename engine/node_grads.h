// The gradients that a node's backward() reads and writes.
//
//   void backward(NodeGrads& grads) {   // of y = a b
//     const MulBackward<T> p{.da = grads.out<T>(0), .db = grads.out<T>(1), .dy = grads.dy().data<T>(), ...};
#pragma once
#include "engine/tape.h"

namespace foldgrad {

class NodeGrads {
 public:
  // Returns the gradient of the node's result. It has the result's shape and dtype.
  const Tensor& dy() const { return dy_; }
  bool wanted(int operand) const { return slot(operand).wants_grad; }

  // Returns where to write operand k's gradient, or an undefined tensor if the gradient is not wanted. Call it once per
  // operand, and write every element. An operand that occurs twice has two tensors, which are added after the node has
  // run. The kernel writes elements of type `dtype`: dy's dtype or, if the kernel supports it, sum_dtype(k).
  std::pair<Tensor, GradMode> place(int k, DType dtype) { return place(k, dtype, {}); }

  // Does the same, but returns a GradOut for a kernel with elements of type T. Its pointer is null if the gradient is
  // not wanted. Sums over rows, such as the gradients of biases and gains, are written in compute_t<T>: the gradient of
  // a bf16 copy of an f32 parameter (Tape::parameter) is f32, so these sums are rounded at most once.
  //
  // `spent` is a saved tensor of operand k's shape. If nothing else refers to it, the gradient may overwrite it, so the
  // kernel must read spent[i] before it writes element i.
  template <class T>
  GradOut<T> out(int k, const Tensor& spent = {}) {
    const auto [tensor, mode] = place(k, dtype_of<T>, spent);
    return tensor.defined() ? GradOut<T>{tensor.template data<T>(), mode} : GradOut<T>{};
  }
  // Returns the dtype of operand k's gradient, which is f32 if the operand is the bf16 copy of an f32 parameter.
  DType sum_dtype(int k) const { return slot(k).grad_dtype(); }

  // Adds dy, reshaped to the operand's shape, to operand k's gradient. For one operand of the node, dy itself may
  // become the gradient, without a copy. Call this last, since later contributions may then be added to dy's memory.
  void pass_dy(int k);

 private:
  friend class Tape;
  NodeGrads(Tape& tape, const Node& node, Tensor dy) : tape_(tape), node_(node), dy_(std::move(dy)) {}
  Tape::Slot& slot(int k) const { return tape_.slots_[node_.inputs()[k]]; }
  std::pair<Tensor, GradMode> place(int k, DType dtype, const Tensor& spent);

  Tape& tape_;
  const Node& node_;
  Tensor dy_;
  bool dy_taken_ = false;  // dy has become the gradient of an operand
  // Contributions to operands that occur twice, and contributions whose dtype differs from the dtype of the gradient.
  // They are added after the node has run.
  std::vector<std::pair<int, Tensor>> temporary_;
};

}  // namespace foldgrad
