// The tape records operations in the order in which they are computed, and differentiates them.
//
//   Tape tape;
//   Var y = relu(linear(tape.constant(x), tape.parameter(weight), tape.parameter(bias)));
//   tape.backward(mean(y));       // adds to weight.grad and bias.grad
//   tape.clear();                 // the tape is ready for the next step
//
// An operand is always recorded before its result, so the recording is already in topological order: backward() runs
// each node once, from last to first, without sorting or recursion.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <unordered_set>

#include "engine/dispatch.h"
#include "engine/grad_out.h"
#include "engine/node.h"
#include "engine/tensor.h"

namespace foldgrad {

class Tape;

// A trainable tensor. Its gradient outlives the tape: backward passes add to it until zero_grad().
struct Parameter {
  std::string name;
  Tensor value;
  Tensor grad = {};       // has the shape and dtype of value; undefined before the first backward pass
  bool has_grad = false;  // if false, the next contribution overwrites grad
  Tensor rounded = {};    // value in bf16, if training is in bf16 (round_values() of optimizer.h); otherwise undefined

  void zero_grad() { has_grad = false; }
};

// Computes target += source, or target = source. Both must have the same shape and device. The source and the sum are
// rounded to the target's floating-point dtype.
void accumulate(const Tensor& target, const Tensor& source, GradMode mode = GradMode::add);

// A value and its position on a tape. Copying a Var is cheap.
class Var {
 public:
  Var() = default;
  const Tensor& value() const { return value_; }
  const Shape& shape() const { return value_.shape(); }
  DType dtype() const { return value_.dtype(); }
  Device device() const { return value_.device(); }
  Tape& tape() const { return *tape_; }
  int id() const { return id_; }  // index among the tape's values; -1 if the value was not recorded

 private:
  friend class Tape;
  Var(Tape* tape, Tensor value, int id, unsigned generation)
      : tape_(tape), value_(std::move(value)), id_(id), generation_(generation) {}

  Tape* tape_ = nullptr;
  Tensor value_;
  int id_ = -1;
  unsigned generation_ = 0;  // the tape's generation; clear() increments it, so that using a stale Var is an error
};

class Tape {
 public:
  // If `recording` is false, operations only compute, and a value is freed with its last Var.
  explicit Tape(bool recording = true) : recording_(recording) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  bool recording() const { return recording_; }

  Var constant(Tensor value);           // gets no gradient
  Var variable(Tensor value);           // gets a gradient; read it with grad()
  Var parameter(Parameter& parameter);  // adds its gradient to parameter.grad; always returns the same Var
  // Records `rounded`, the bf16 copy of an f32 parameter. The f32 parameter gets the gradient: operations sum it in f32
  // where they can, and bf16 gradients are added in f32. Throws std::invalid_argument if `rounded` is not bf16, or if
  // its shape or device differs from the value's.
  Var parameter(Parameter& parameter, Tensor rounded);

  // Records an operation with its result y. If no operand needs a gradient, y becomes a constant. Throws
  // std::invalid_argument if an operand belongs to another tape or to an earlier recording.
  template <class Op>
  Var record(Tensor y, const std::vector<Var>& operands, Op op) {
    check_operands(op.name(), operands);
    if (!wants_grad(operands)) return constant(std::move(y));
    return add_node(std::move(y), operands, std::make_shared<NodeOf<Op>>(std::move(op)));
  }

  // Adds dy * d(y)/d(v) to the gradient of every variable and parameter v. Without dy, y must have one element, and dy
  // is 1. Each node is released with its saved tensors as soon as it has run, so backward() can run only once per
  // recording. If nothing else refers to dy, its memory may become a gradient; otherwise dy is not changed. Throws
  // std::invalid_argument for a second run, for a y of another recording, or for a dy that does not match y.
  void backward(const Var& y, Tensor dy = {});

  // Returns the gradient of a variable or parameter, which is undefined until a backward pass has added to it.
  Tensor grad(const Var& variable) const;

  // Discards the recording and returns its memory to the cache. Its Vars can no longer be used.
  void clear();

  // Names a layer in errors and graphs. Dots join nested scopes: "encoder.layers.0".
  class Scope {
   public:
    Scope(Tape& tape, const std::string& name);
    ~Scope() { tape_.scope_ = outer_; }

   private:
    Tape& tape_;
    const std::string* const outer_;
  };

  // From now on, record() passes every operation and its result to `results`, and backward() passes every operation and
  // the gradient of its result to `gradients`. The tape itself does not keep results.
  using Observer = std::function<void(const Node&, const Tensor&)>;
  void observe(Observer results, Observer gradients = nullptr) {
    observe_result_ = std::move(results);
    observe_gradient_ = std::move(gradients);
  }

  // Returns the recorded operations. You may keep a Node, but its scope() lives only as long as the tape.
  const std::vector<std::shared_ptr<Node>>& nodes() const { return nodes_; }
  const Parameter* parameter_of(int id) const { return slots_[id].parameter; }  // null if there is none
  const Shape& shape_of(int id) const { return slots_[id].shape; }
  int values() const { return int(slots_.size()); }

 private:
  friend class NodeGrads;
  // The properties of a recorded value that backward() needs. The value itself is kept only by its Vars and by nodes
  // that saved it.
  struct Slot {
    Shape shape;
    DType dtype;
    Device device;
    bool wants_grad;
    bool produced;  // true if a node computed the value; the gradient is released after the node's backward()
    Parameter* parameter = nullptr;
    Tensor own_grad = {};  // the gradient of a value that is not a parameter

    Tensor& grad() { return parameter ? parameter->grad : own_grad; }
    bool has_grad() const { return parameter ? parameter->has_grad : own_grad.defined(); }
    DType grad_dtype() const { return parameter ? parameter->value.dtype() : dtype; }
  };

  Var add_parameter(Parameter& parameter, Tensor value);
  Var add_value(Tensor value, bool wants_grad, bool produced, Parameter* parameter = nullptr);
  Var add_node(Tensor y, const std::vector<Var>& operands, std::shared_ptr<Node> node);
  void check_operands(const char* op, const std::vector<Var>& operands) const;
  void check_variable(const char* call, const Var& variable) const;
  bool wants_grad(const std::vector<Var>& operands) const;
  void seed_gradient(const Var& y, Tensor dy);
  void contribute(int id, const Tensor& grad);  // adds a contribution; the first one becomes the gradient itself
  // Returns where to write the slot's gradient, and marks the gradient as written.
  static std::pair<Tensor, GradMode> place_of(Slot& slot);

  bool recording_;
  bool consumed_ = false;  // true if backward() has run
  unsigned generation_ = 0;
  std::vector<Slot> slots_;
  std::vector<std::shared_ptr<Node>> nodes_;
  std::map<std::pair<const Parameter*, DType>, int> parameters_;
  std::unordered_set<std::string> scopes_;  // clear() keeps the names, so that later training steps reuse them
  static inline const std::string kNoScope;
  const std::string* scope_ = &kNoScope;
  Observer observe_result_, observe_gradient_;
};

}  // namespace foldgrad
