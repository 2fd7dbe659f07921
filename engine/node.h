// One operation on the tape. An operation passes Tape::record() a struct whose members are the tensors and numbers that
// its backward pass needs:
//
//   struct ScaleNode {
//     double s;
//     const char* name() const { return "scale"; }
//     void backward(NodeGrads& grads);          // engine/node_grads.h
//     void describe(Description& d) const {}    // engine/graph/description.h
//   };
//
// All three functions are required. Folding and export treat an operation with an empty describe() as a nonlinear
// operation without an ONNX form.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace foldgrad {

struct Description;
class NodeGrads;

class Node {
 public:
  virtual ~Node() = default;
  virtual const char* name() const = 0;
  // Adds this node's contribution to the gradient of every operand that needs one.
  virtual void backward(NodeGrads& grads) = 0;
  // Sets the properties that differ from the defaults. The functions among them may be called while the node lives.
  virtual void describe(Description& description) const = 0;

  const std::vector<int>& inputs() const { return inputs_; }  // ids of the operands on the tape
  int output() const { return output_; }                      // id of the result on the tape
  const std::string& scope() const { return *scope_; }        // the recording layer's name: "encoder.layers.0.ffn"

 private:
  friend class Tape;
  std::vector<int> inputs_;
  int output_ = -1;
  const std::string* scope_ = nullptr;
};

template <class Op>
class NodeOf final : public Node {
 public:
  explicit NodeOf(Op op) : op_(std::move(op)) {}
  const char* name() const override { return op_.name(); }
  void backward(NodeGrads& grads) override { op_.backward(grads); }
  void describe(Description& description) const override { op_.describe(description); }

 private:
  Op op_;
};

}  // namespace foldgrad
