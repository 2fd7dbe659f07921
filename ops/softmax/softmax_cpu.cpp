#include "engine/cpu/rows.h"
#include "ops/softmax/softmax_kernels.h"

namespace foldgrad {
namespace {

namespace math = softmax_math;

constexpr std::int64_t kKeptBytes = 65536;  // exponentials of longer rows are computed twice

// kept_of(r)(c) says whether entry c of row r is attended. Entries are read in any case and chosen afterwards, so that
// loops vectorise.
template <class T, class KeptOf>
void forward_rows(const SoftmaxForward<T>& p, std::int64_t begin, std::int64_t end, const KeptOf& kept_of) {
  using Value = compute_t<T>;
  constexpr std::int64_t kKept = kKeptBytes / sizeof(Value);
  alignas(64) Value kept_exponentials[kKept];
  const std::int64_t columns = p.columns;
  const bool keeps = columns <= kKept, bypass = bypasses_cache<T>(p.rows * columns);
  Value max[kRowGroup], scale[kRowGroup];
  const auto exponentials = [&](std::int64_t r) {
    return [x = p.x + r * columns, m = max[r - begin], kept = kept_of(r)](std::int64_t c) {
      const Value value = math::exponential(Value(x[c]), m);
      return kept(c) ? value : Value(0);
    };
  };
  for (std::int64_t r = begin; r < end; ++r) {
    max[r - begin] = math::shift(max_cpu<Value>(columns, [x = p.x + r * columns, kept = kept_of(r)](std::int64_t c) {
      const Value value = x[c];
      return kept(c) ? value : math::nothing<Value>();
    }));
  }
  for (std::int64_t r = begin; r < end; ++r) {
    const auto exponential = exponentials(r);
    Value* e = kept_exponentials + (r - begin) * columns;
    scale[r - begin] =
        math::scale(keeps ? sum_cpu<Value>(columns, [=](std::int64_t c) { return e[c] = exponential(c); })
                          : sum_cpu<Value>(columns, exponential));
  }
  for (std::int64_t r = begin; r < end; ++r) {
    const Value factor = scale[r - begin];
    const Value* e = kept_exponentials + (r - begin) * columns;
    if (keeps)
      write_cpu(p.y + r * columns, 0, columns, bypass, [=](std::int64_t c) { return math::y(e[c], factor); });
    else
      write_cpu(p.y + r * columns, 0, columns, bypass,
                [factor, exponential = exponentials(r)](std::int64_t c) { return math::y(exponential(c), factor); });
  }
}

template <class T>
void forward_rows(const SoftmaxForward<T>& p, std::int64_t begin, std::int64_t end) {
  if (p.mask)
    forward_rows(p, begin, end, [&p](std::int64_t r) {
      return [mask = p.mask + r / p.rows_per_mask * p.columns](std::int64_t c) { return mask[c] != 0; };
    });
  else
    forward_rows(p, begin, end, [](std::int64_t) { return [](std::int64_t) { return true; }; });
}

template <class T>
void backward_rows(const SoftmaxBackward<T>& p, std::int64_t begin, std::int64_t end) {
  using Value = compute_t<T>;
  const std::int64_t columns = p.columns;
  Value sums[kRowGroup];
  for (std::int64_t r = begin; r < end; ++r)
    sums[r - begin] = sum_cpu<Value>(columns, [y = p.y + r * columns, dy = p.dy + r * columns](std::int64_t c) {
      return Value(dy[c]) * Value(y[c]);
    });
  for (std::int64_t r = begin; r < end; ++r) {
    const T *y = p.y + r * columns, *dy = p.dy + r * columns;
    const GradOut<T> dx{p.dx.data + r * columns, p.dx.mode};
    write_cpu(dx, 0, columns, bypasses_cache<T>(p.rows * columns),
              [=, sum = sums[r - begin]](std::int64_t c) { return math::dx(Value(y[c]), Value(dy[c]), sum); });
  }
}

}  // namespace

template <class T>
void softmax_cpu(const SoftmaxForward<T>& p) {
  for_row_groups_cpu(p.rows, p.columns, [&p](std::int64_t begin, std::int64_t end) { forward_rows(p, begin, end); });
}
template <class T>
void softmax_cpu(const SoftmaxBackward<T>& p) {
  for_row_groups_cpu(p.rows, p.columns, [&p](std::int64_t begin, std::int64_t end) { backward_rows(p, begin, end); });
}

FOLDGRAD_INSTANTIATE(softmax_cpu, SoftmaxForward);
FOLDGRAD_INSTANTIATE(softmax_cpu, SoftmaxBackward);

}  // namespace foldgrad
