#include "ops/softmax/softmax.h"

#include <algorithm>

#include "engine/cpu/row_op.h"
#include "engine/graph/description.h"
#include "engine/graph/onnx_graph.h"
#include "ops/softmax/softmax_kernels.h"

namespace foldgrad {
namespace {

struct SoftmaxNode {
  Tensor y;  // instead of x: its zeros also say where the mask was 0
  bool masked;

  const char* name() const { return "softmax"; }

  void backward(NodeGrads& grads) {
    dispatch_floating(name(), y.dtype(), [&]<class T>(Type<T>) {
      const std::int64_t C = y.shape()[-1];
      const SoftmaxBackward<T> p{.dx = grads.out<T>(0),
                                 .dy = grads.dy().data<T>(),
                                 .y = y.data<T>(),
                                 .rows = C ? y.size() / C : 0,
                                 .columns = C};
      FOLDGRAD_RUN(y.device(), row_op, p);
    });
  }
  void describe(Description& d) const { d.sums_to_one = !masked; }  // a row without any x is 0
  std::string onnx(OnnxGraph& g, const OnnxOperands& in) const {
    FOLDGRAD_CHECK(!masked, "onnx: softmax with a mask is not known as nodes of ONNX");
    return g.node("Softmax", {in[0]}, {{"axis", std::int64_t(-1)}});
  }
};

void check_mask(const Tensor& mask, const Tensor& x) {
  const auto& of_mask = mask.shape().sizes();
  const auto& of_x = x.shape().sizes();
  const bool fits = mask.defined() && !of_mask.empty() && of_mask.size() <= of_x.size() &&
                    of_mask.back() == of_x.back() && std::equal(of_mask.begin(), of_mask.end() - 1, of_x.begin());
  FOLDGRAD_CHECK(fits && mask.dtype() == DType::u8 && mask.device() == x.device(),
                 "softmax: mask must be u8 on {}, its last axis that of x and its others the first of x, which is {}, "
                 "got {}",
                 name(x.device()), describe(x), describe(mask));
}

// An undefined mask lets all entries count.
Tensor forward(const Tensor& x, const Tensor& mask) {
  const std::int64_t C = x.shape()[-1], R = C ? x.size() / C : 0;
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  dispatch_floating("softmax", x.dtype(), [&]<class T>(Type<T>) {
    const auto run = [&](auto masked) {
      const SoftmaxForward<T, masked()> p{.y = y.data<T>(),
                                          .x = x.data<T>(),
                                          .mask = masked() ? mask.data<std::uint8_t>() : nullptr,
                                          .rows = R,
                                          .columns = C,
                                          .rows_per_mask = masked() && mask.size() ? x.size() / mask.size() : 1};
      FOLDGRAD_RUN(x.device(), row_op, p);
    };
    mask.defined() ? run(std::true_type()) : run(std::false_type());
  });
  return y;
}

}  // namespace

Var softmax(const Var& x) {
  check_floating("softmax", "x", x.value(), 1);
  const Tensor y = forward(x.value(), {});
  return x.tape().record(y, {x}, SoftmaxNode{.y = y, .masked = false});
}

Var softmax(const Var& x, const Var& mask) {
  check_floating("softmax", "x", x.value(), 1);
  check_mask(mask.value(), x.value());
  const Tensor y = forward(x.value(), mask.value());
  return x.tape().record(y, {x, mask}, SoftmaxNode{.y = y, .masked = true});
}

}  // namespace foldgrad
