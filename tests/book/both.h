// Runs an operation of book/tiny.cpp and its counterpart in the engine on the same numbers.
//
// Both evaluate the same formulas in f64. They differ only in the order of long sums, which the engine splits between
// vector lanes and blocks of rows. So results have the same bits if no sum is rounded, or if both sum in the same
// order, as they do over up to 16 rows and within rows of two channels. Otherwise results differ by rounding errors.
#pragma once
#define main tiny_main
#include "book/tiny.cpp"
#undef main

#include "engine/tape.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {

// The result of an operation and the gradients of its operands.
using Results = std::vector<std::vector<double>>;

inline tiny::Tensor uniform(int rows, int columns, tiny::Random& random) {
  tiny::Tensor t(rows, columns);
  for (double& v : t.values) v = tiny::uniform(random, -1, 1);
  return t;
}
inline tiny::Tensor integers(int rows, int columns, tiny::Random& random) {
  tiny::Tensor t(rows, columns);
  for (double& v : t.values) v = int(random() % 9) - 4;
  return t;
}

// Converts t to an engine tensor. A matrix with one row becomes a vector; a 1 x 1 matrix becomes a scalar.
inline Tensor engine_tensor(const tiny::Tensor& t) {
  if (t.size() == 1) return Tensor::of<double>({}, t.values);
  return t.rows == 1 ? Tensor::of<double>({t.columns}, t.values) : Tensor::of<double>({t.rows, t.columns}, t.values);
}

template <class Op>
Results of_tiny(const std::vector<tiny::Tensor>& operands, const tiny::Tensor& dy, const Op& op) {
  tiny::Tape tape;
  std::vector<tiny::Var> vars;
  for (const tiny::Tensor& t : operands) vars.push_back(tiny::variable(t));
  const tiny::Var y = op(tape, vars);
  tape.record([&] { y->grad = dy; });
  tape.backward(tiny::variable(tiny::Tensor(1, 1)));
  Results results{y->value.values};
  for (const tiny::Var& v : vars) results.push_back(v->grad.values);
  return results;
}
template <class Op>
Results of_engine(const std::vector<tiny::Tensor>& operands, const tiny::Tensor& dy, const Op& op) {
  Tape tape;
  std::vector<Var> vars;
  for (const tiny::Tensor& t : operands) vars.push_back(tape.variable(engine_tensor(t)));
  const Var y = op(vars);
  tape.backward(y, engine_tensor(dy));
  Results results{y.value().values<double>()};
  for (const Var& v : vars) results.push_back(tape.grad(v).values<double>());
  return results;
}

// Checks that |got - want| <= bound everywhere. A bound of 0 requires equal values, except for the sign of zero.
inline void expect_within(double bound, const Results& got, const Results& want, const std::string& what = "") {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t k = 0; k < got.size(); ++k) {
    ASSERT_EQ(got[k].size(), want[k].size()) << what << ", result " << k;
    for (std::size_t i = 0; i < got[k].size(); ++i)
      ASSERT_LE(std::fabs(got[k][i] - want[k][i]), bound) << what << ", result " << k << ", element " << i;
  }
}

// Two versions of one operation: a function of tiny's tape and variables, and a function of the engine's variables.
template <class OfTiny, class OfEngine>
struct Both : OfTiny, OfEngine {
  using OfTiny::operator(), OfEngine::operator();
};
using TinyVars = std::vector<tiny::Var>;
using EngineVars = std::vector<Var>;

template <class Op>
void expect_same(double bound, const std::vector<tiny::Tensor>& operands, const tiny::Tensor& dy, const Op& op,
                 const std::string& what = "") {
  expect_within(bound, of_tiny(operands, dy, op), of_engine(operands, dy, op), what);
}

// Returns a bound on the difference between two sums of the same n terms in different orders. No term exceeds `size`.
// Each sum takes n additions, and each addition has a rounding error of at most 2^-53 times n * size. The second part
// of the bound allows each term to be rounded a few times.
inline double order_bound(int n, double size) { return 2 * n * (n * size) * 0x1p-53 + 8 * n * size * 0x1p-53; }

}  // namespace foldgrad::testing
