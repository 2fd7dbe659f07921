#include "engine/dispatch.h"

namespace foldgrad {

std::string describe(const Tensor& tensor) {
  if (!tensor.defined()) return "nothing";
  return fmt::format("{} {} on {}", name(tensor.dtype()), tensor.shape(), name(tensor.device()));
}

void check_operand(const char* op, const char* what, const Tensor& operand, const Shape& shape, DType dtype,
                   const Tensor& like, const char* like_name) {
  const bool ok =
      operand.defined() && operand.shape() == shape && operand.dtype() == dtype && operand.device() == like.device();
  FOLDGRAD_CHECK(ok, "{}: {} must be {} {} on {} ({} is {}), got {}", op, what, name(dtype), shape, name(like.device()),
                 like_name, describe(like), describe(operand));
}

void check_floating(const char* op, const char* what, const Tensor& x, int rank) {
  FOLDGRAD_CHECK(x.defined() && is_floating(x.dtype()) && x.shape().rank() >= rank,
                 "{}: {} must be f32, f64 or bf16{}, got {}", op, what,
                 rank ? fmt::format(" of rank {} or more", rank) : "", describe(x));
}

std::int64_t check_channels(const char* op, const Tensor& x, const Tensor& gamma, const Tensor& beta) {
  check_floating(op, "x", x, 1);
  check_operand(op, "gamma", gamma, {x.shape()[-1]}, x, "x");
  check_operand(op, "beta", beta, gamma.shape(), x, "x");
  return gamma.size();
}

int check_axis(const char* op, int axis, const Shape& shape) {
  FOLDGRAD_CHECK(-shape.rank() <= axis && axis < shape.rank(), "{}: axis {} does not exist in {}", op, axis, shape);
  return axis < 0 ? axis + shape.rank() : axis;
}

}  // namespace foldgrad
