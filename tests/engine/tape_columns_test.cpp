// Nodes that read columns of a value write their share of its gradient.
#include <functional>
#include <limits>

#include "engine/tape.h"
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

Tensor scalars(std::vector<double> values) { return Tensor::of<double>({std::int64_t(values.size())}, values); }

// x itself.
struct SameNode {
  const char* name() const { return "same"; }
  void backward(NodeGrads& grads) { grads.pass_dy(0); }
};
Var same(const Var& x) { return x.tape().record(x.value().clone(), {x}, SameNode{}); }

// y = factor times columns [begin, end) of x [R, C], which may be an operand several times.
struct ColumnsNode {
  std::int64_t begin, end, columns;
  double factor;
  int times;
  const char* name() const { return "columns"; }
  void backward(NodeGrads& grads) {
    const Tensor& dy = grads.dy();
    for (int k = 0; k < times; ++k) {
      const GradOut<double> dx = grads.columns_out<double>(k, begin, end);
      for (std::int64_t r = 0; r < dy.shape()[0]; ++r)
        for (std::int64_t c = begin; c < end; ++c)
          dx.put(r * columns + c, factor * dy.data<double>()[r * (end - begin) + c - begin]);
    }
  }
};

Var columns(const Var& x, std::int64_t begin, std::int64_t end, double factor, int times = 1) {
  const std::int64_t R = x.shape()[0], C = x.shape()[1];
  const Tensor y = Tensor::empty({R, end - begin}, DType::f64);
  for (std::int64_t r = 0; r < R; ++r)
    for (std::int64_t c = begin; c < end; ++c)
      y.data<double>()[r * (end - begin) + c - begin] = factor * double(times) * x.value().data<double>()[r * C + c];
  return x.tape().record(y, std::vector<Var>(std::size_t(times), x), ColumnsNode{begin, end, C, factor, times});
}

// A number with the gradient 1 for every element of every operand.
struct OnesNode {
  std::vector<std::int64_t> sizes;
  const char* name() const { return "ones"; }
  void backward(NodeGrads& grads) {
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      const GradOut<double> dx = grads.out<double>(int(k));
      for (std::int64_t i = 0; dx && i < sizes[k]; ++i) dx.put(i, 1);
    }
  }
};

Var ones(const std::vector<Var>& of) {
  std::vector<std::int64_t> sizes;
  for (const Var& v : of) sizes.push_back(v.value().size());
  return of[0].tape().record(scalars({0}), of, OnesNode{sizes});
}

struct ColumnCase {
  const char* what;
  std::function<std::vector<Var>(const Var&)> parts;  // of which the last one comes first
  std::vector<double> row;                            // of the gradient
};
const ColumnCase kColumnCases[] = {
    {"apart",
     [](const Var& x) {
       return std::vector{columns(x, 0, 2, 3), columns(x, 2, 4, 5)};
     },
     {3, 3, 5, 5}},
    {"with gaps", [](const Var& x) { return std::vector{columns(x, 1, 2, 3)}; }, {0, 3, 0, 0}},
    {"gaps on both sides",
     [](const Var& x) {
       return std::vector{columns(x, 3, 4, 7), columns(x, 1, 2, 3)};
     },
     {0, 3, 0, 7}},
    {"twice the same",
     [](const Var& x) {
       return std::vector{columns(x, 0, 2, 3), columns(x, 0, 2, 5)};
     },
     {8, 8, 0, 0}},
    {"overlapping",
     [](const Var& x) {
       return std::vector{columns(x, 0, 3, 3), columns(x, 2, 4, 5)};
     },
     {3, 3, 8, 5}},
    {"the whole first",
     [](const Var& x) {
       return std::vector{columns(x, 0, 1, 3), same(x)};
     },
     {4, 1, 1, 1}},
    {"the whole last",
     [](const Var& x) {
       return std::vector{same(x), columns(x, 0, 1, 3)};
     },
     {4, 1, 1, 1}},
    {"the whole last, by a kernel",
     [](const Var& x) {
       return std::vector{columns(x, 0, 4, 2), columns(x, 0, 1, 3)};
     },
     {5, 2, 2, 2}},
    {"one value twice", [](const Var& x) { return std::vector{columns(x, 1, 3, 3, 2)}; }, {0, 6, 6, 0}},
};

// Where nobody has written, memory holds what it held before, here NaN.
TEST(TapeColumns, OfOneGradientAreWrittenApart) {
  for (const ColumnCase& c : kColumnCases)
    for (const char* kind : {"variable", "result", "parameter"}) {
      SCOPED_TRACE(fmt::format("{}, of a {}", c.what, kind));
      Parameter parameter{"parameter", Tensor::zeros({2, 4}, DType::f64)};
      Tape tape;
      const Var variable = *kind == 'p' ? tape.parameter(parameter) : tape.variable(parameter.value);
      const Var y = ones(c.parts(*kind == 'r' ? same(variable) : variable));
      { const auto used = Tensor::full({2, 4}, std::numeric_limits<double>::quiet_NaN(), DType::f64); }
      tape.backward(y, scalars({1}));
      std::vector<double> want = c.row;
      want.insert(want.end(), c.row.begin(), c.row.end());
      EXPECT_EQ(tape.grad(variable).values<double>(), want);
    }
}

}  // namespace
}  // namespace foldgrad::testing
