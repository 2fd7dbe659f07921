// Compares bf16 attention on tensor cores with attention of the same numbers in double on the CPU.
#if defined(FOLDGRAD_HAVE_CUDA) && defined(FOLDGRAD_FAST)
#include "tests/harness/op_spec.h"
#include "tests/ops/attention_cases.h"

namespace foldgrad::testing {
namespace {

constexpr double u = 1.0 / 256;  // the largest relative error of rounding to bf16

struct Case {
  Sizes sizes;
  AttentionOptions options;
  Lengths lengths;

  std::string label() const { return label_of(sizes, options, lengths); }
  Rows rows() const { return {sizes, lengths}; }
  // Returns the operation with q, k and v in double, rounded to numbers that bf16 can represent.
  OpCase op() const {
    OpCase c{.label = label(), .operands = {}, .f = {}};
    for (const Tensor& t : random_operands(rows(), sizes)) c.operands.push_back(t.to(DType::bf16).to(DType::f64));
    c.f = [this](const std::vector<Var>& v) { return attend(v, options, rows()); };
    return c;
  }
};

// The largest allowed differences between bf16 and double results: y, dq, dk and dv. The kernels round to bf16 in
// four places: p, before multiplying it by v and dy; the y that delta is computed from; ds, before multiplying it by k
// and q; and the results. Each rounding has a relative error of at most u. Float arithmetic adds a relative error of
// 2^-24 for each term of a sum and, if scores are below 16, of 2^-20 for p. Together with second-order terms, these
// errors are less than u / 16.
class Bounds {
 public:
  Bounds(const OpCase& op, const Case& c, const OpResult& want) : in_(op.operands), c_(c), rows_(c.rows()) {
    y_ = want.y;
    bounds = {Tensor::zeros(y_.shape(), DType::f64)};
    for (int k = 0; k < 3; ++k) bounds.push_back(Tensor::zeros(in_[std::size_t(k)].shape(), DType::f64));
    dy_ = cotangent(y_.shape());
    for (std::int64_t b = 0; b < c.sizes.batch; ++b)
      for (std::int64_t h = 0; h < c.sizes.heads; ++h)
        for (std::int64_t i = 0; i < rows_.queries.length(b); ++i) query(b, h, i);
    for (std::size_t k = 0; k < 4; ++k) {
      const Tensor& result = k == 0 ? y_ : want.grads[k - 1];
      for (std::int64_t e = 0; e < result.size(); ++e) {
        double& bound = bounds[k].data<double>()[e];
        bound = 17.0 / 16 * (bound + u * std::fabs(result.data<double>()[e]));
      }
    }
  }

  std::vector<Tensor> bounds;

 private:
  // Returns head h's part of row i of segment b of t. `of` divides the rows of t into segments.
  const double* row(const Segments& of, const Tensor& t, std::int64_t b, std::int64_t i, std::int64_t h) const {
    return t.data<double>() + (of.offset(b) + i) * t.shape()[1] + h * c_.sizes.width;
  }
  const double* query_row(const Tensor& t, std::int64_t b, std::int64_t i, std::int64_t h) const {
    return row(rows_.queries, t, b, i, h);
  }
  const double* key_row(const Tensor& t, std::int64_t b, std::int64_t j, std::int64_t h) const {
    return row(rows_.keys, t, b, j, h);
  }
  // Returns head h's part of row i of segment b in bounds[k]. k = 0, 1, 2 and 3 mean y, dq, dk and dv.
  double* bound(std::size_t k, std::int64_t b, std::int64_t i, std::int64_t h) {
    return const_cast<double*>(row(k < 2 ? rows_.queries : rows_.keys, bounds[k], b, i, h));
  }
  double product(const double* x, const double* z, bool absolute = false) const {
    double sum = 0;
    for (std::int64_t c = 0; c < c_.sizes.width; ++c) sum += absolute ? std::fabs(x[c] * z[c]) : x[c] * z[c];
    return sum;
  }

  // Adds the contributions of query i of segment b and head h to the bounds.
  void query(std::int64_t b, std::int64_t h, std::int64_t i) {
    const std::int64_t D = c_.sizes.width;
    const double scale = 1 / std::sqrt(double(D)), *dy = query_row(dy_, b, i, h), *y = query_row(y_, b, i, h);
    const Probabilities of_query(in_, c_.options, rows_, b, h, i);
    const std::vector<double>&p = of_query.p, &z = of_query.z;
    double* y_bound = bound(0, b, i, h);
    for (std::size_t j = 0; j < p.size(); ++j)
      for (std::int64_t c = 0; c < D; ++c) y_bound[c] += u * z[j] * p[j] * std::fabs(key_row(in_[2], b, j, h)[c]);
    double delta_bound = 0;
    for (std::int64_t c = 0; c < D; ++c) delta_bound += std::fabs(dy[c]) * (y_bound[c] + u * std::fabs(y[c]));
    for (std::size_t j = 0; j < p.size(); ++j) {
      const double *k = key_row(in_[1], b, j, h), *v = key_row(in_[2], b, j, h), *q = query_row(in_[0], b, i, h);
      const double ds = p[j] * (z[j] * product(dy, v) - product(dy, y));
      // `rounding` bounds the error of float arithmetic.
      const double rounding = u / 64 * p[j] * (z[j] * product(dy, v, true) + product(dy, y, true));
      const double ds_bound = scale * (p[j] * delta_bound + u * std::fabs(ds) + rounding);
      for (std::int64_t c = 0; c < D; ++c) {
        bound(1, b, i, h)[c] += ds_bound * std::fabs(k[c]);
        bound(2, b, j, h)[c] += ds_bound * std::fabs(q[c]);
        bound(3, b, j, h)[c] += u * z[j] * p[j] * std::fabs(dy[c]);
      }
    }
  }

  const std::vector<Tensor>& in_;
  const Case& c_;
  const Rows rows_;
  Tensor y_, dy_;
};

// Returns the largest |got - want| / limit, where limit = bound + u |more|. Returns infinity if values differ where the
// limit is 0, and at least 1e300 if a difference is NaN.
double worst(const Tensor& got, const Tensor& want, const Tensor& bound, const Tensor& more = {}) {
  const std::vector<double> g = got.to(Device::cpu).to(DType::f64).values<double>();
  double largest = 0;
  for (std::int64_t e = 0; e < want.size(); ++e) {
    const double limit = bound.data<double>()[e] + (more.defined() ? u * std::fabs(more.data<double>()[e]) : 0);
    const double error = std::fabs(g[std::size_t(e)] - want.data<double>()[e]);
    if (error == 0) continue;
    largest = error <= limit ? std::max(largest, error / limit)
                             : std::max(largest, std::isnan(error) ? 1e300 : error / limit);
  }
  return largest;
}

void expect_within_bounds(const Case& c) {
  const OpCase op = c.op();
  const OpResult want = run_case(op, DType::f64, Device::cpu);
  const Bounds all(op, c, want);
  for (const GradMode mode : {GradMode::set, GradMode::add}) {
    if (mode == GradMode::add && c.sizes.batch == 1) continue;  // saves time
    const OpResult got = run_case(op, DType::bf16, Device::cuda, mode);
    EXPECT_LE(worst(got.y, want.y, all.bounds[0]), 1) << c.label();
    for (unsigned k = 0; k < 3; ++k) {
      // GradMode::add adds the gradient to an earlier one, and rounds the sum, too. `more` is the earlier gradient of
      // run_case().
      const Tensor more = mode == GradMode::add ? randn(op.operands[k].shape(), 50 + k) : Tensor();
      EXPECT_LE(worst(got.grads[k], want.grads[k], all.bounds[k + 1], more), 1)
          << c.label() << ", gradient of operand " << k << (mode == GradMode::add ? ", added" : "");
    }
  }
}

// Most lengths differ by at most 1 from the number of rows of a fragment (16), a tile (32 or 64) or a block (64), or
// from 128, the longest length for which one kernel computes the whole backward pass.
const std::pair<std::int64_t, std::int64_t> kLengths[] = {{1, 1},   {1, 17},    {15, 16},  {16, 15},
                                                          {17, 33}, {40, 31},   {64, 64},  {65, 64},
                                                          {33, 97}, {128, 128}, {129, 65}, {65, 129}};

std::vector<Case> cases(std::int64_t width) {
  std::vector<Case> all;
  for (const auto& [queries, keys] : kLengths) {
    const bool large = queries * keys > 2000;
    const Sizes sizes{large ? 1 : 3, queries, keys, 2, width};
    all.push_back({sizes, with(2, true, 0.25), Lengths::equal});
    if (large) continue;
    all.push_back({sizes, with(2), Lengths::equal});
    all.push_back({sizes, with(2, true), Lengths::ragged});
    all.push_back({sizes, with(2, false, 0.5), Lengths::ragged});
  }
  return all;
}

class AttentionTensorCores : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  }
};

TEST_P(AttentionTensorCores, ATT_1_ATT_2_ATT_3_ATT_4_ATT_5_ATT_6_StayWithinTheirBounds) {
  for (const Case& c : cases(GetParam())) expect_within_bounds(c);
}

// Checks that y and the gradients keep their bits when they are computed again, and in every other thread order.
TEST_P(AttentionTensorCores, ThreadOrdersGiveTheSameBits) {
  for (const std::int64_t keys : {40, 129}) {
    const Case c{{2, 40, keys, 2, GetParam()}, with(2, true, 0.25), Lengths::ragged};
    const OpCase op = c.op();
    const OpResult want = run_case(op, DType::bf16, Device::cuda);
    const Case other{c.sizes, with(2), Lengths::equal};
    const OpCase in_between = other.op();
    const auto expect_again = [&](const char* how) {
      run_case(in_between, DType::bf16, Device::cuda);  // overwrites memory that the next run reuses
      const OpResult got = run_case(op, DType::bf16, Device::cuda);
      EXPECT_TRUE(identical(got.y, want.y)) << c.label() << how;
      for (std::size_t k = 0; k < 3; ++k)
        EXPECT_TRUE(identical(got.grads[k], want.grads[k])) << c.label() << how << ", operand " << k;
    };
    expect_again(", again");
    in_other_thread_orders([&] { expect_again(", another order of the threads"); });
  }
}

INSTANTIATE_TEST_SUITE_P(Width, AttentionTensorCores, ::testing::Values(32, 64, 128),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace foldgrad::testing
#endif
