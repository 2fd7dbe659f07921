// Comparisons of tensors, and reproducible random tensors.
#pragma once
#include <gtest/gtest.h>

#include <cmath>  // tests also need it to compute expected values

#include "engine/tensor.h"
#include "tests/engine/error_message.h"

namespace foldgrad::testing {

// Checks that |got - want| <= tolerance (1 + |want|) for every element, for all dtypes and devices. Infinities must be
// equal; NaN on either side fails.
::testing::AssertionResult close(const Tensor& got, const Tensor& want, double tolerance);
// Checks that dtypes, shapes and all bits are equal.
::testing::AssertionResult identical(const Tensor& got, const Tensor& want);

// Returns mean + scale * N(0, 1), in f64 on the CPU. Equal seeds give equal values.
Tensor randn(Shape shape, unsigned seed, double scale = 1, double mean = 0);
// Returns randn(shape, seed) with every value moved at least `margin` away from zero. Use it for functions with a kink
// at zero, where finite differences do not approximate the gradient.
Tensor randn_off_zero(Shape shape, unsigned seed, double margin = 0.01);
// Returns i64 ids in [0, limit).
Tensor random_ids(Shape shape, std::int64_t limit, unsigned seed);

// Returns the derivative of value() with respect to x, by central differences of fourth order,
// (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h.
template <class Value>
double derivative(double& x, double h, const Value& value) {
  const double x0 = x;
  const auto at = [&](double step) {
    x = x0 + step;
    return value();
  };
  const double near = at(h) - at(-h), far = at(2 * h) - at(-2 * h);
  x = x0;
  return (8 * near - far) / (12 * h);
}

// Returns the message of the std::exception that `body` throws, or "no error" if it throws none.
template <class Body>
std::string message_of(const Body& body) {
  return message<std::exception>(body);
}

}  // namespace foldgrad::testing
