#include "ops/group_norm/group_norm.h"

#include <optional>

#include "engine/node_grads.h"
#include "ops/group_norm/group_norm_kernels.h"

namespace foldgrad {
namespace {

GroupNormShape shape_of(const Tensor& x, const std::optional<Segments>& samples, std::int64_t groups) {
  const std::int64_t rows = x.shape().without(-1).elements();
  return {.offsets = samples ? samples->offsets().data<std::int64_t>() : nullptr,
          .samples = samples ? samples->count() : rows,
          .rows = rows,
          .columns = x.shape()[-1],
          .groups = groups};
}

Tensor sample_of_rows(const Segments& samples) {
  std::vector<std::int64_t> of_rows;
  for (std::int64_t s = 0; s < samples.count(); ++s) of_rows.insert(of_rows.end(), std::size_t(samples.length(s)), s);
  return Tensor::of({samples.rows()}, of_rows, samples.device());
}

struct GroupNormNode {
  Tensor x, gamma, mu, rstd;
  std::optional<Segments> samples;

  const char* name() const { return "group_norm"; }

  // Differentiates group_norm [GN-1, GN-2, GN-3]: computes dx [GN-4], dgamma and dbeta [GN-5].
  void backward(NodeGrads& grads) {
    const bool on_cpu = x.device() == Device::cpu;
    const GroupNormShape shape = shape_of(x, samples, mu.shape()[1]);
    const Tensor of_rows = samples && !on_cpu ? sample_of_rows(*samples) : Tensor();
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) {
      using Value = compute_t<T>;
      const GroupNormBackward<T> p{.dx = grads.out<T>(0),
                                   .dgamma = grads.out<compute_t<T>>(1),
                                   .dbeta = grads.out<compute_t<T>>(2),
                                   .dy = grads.dy().data<T>(),
                                   .x = x.data<T>(),
                                   .gamma = gamma.data<T>(),
                                   .mu = mu.data<Value>(),
                                   .rstd = rstd.data<Value>(),
                                   .sample_of_row = data_or_null<std::int64_t>(of_rows),
                                   .shape = shape,
                                   .rows = on_cpu ? shape.samples : shape.rows,
                                   .columns = shape.columns};
      FOLDGRAD_RUN(x.device(), group_norm, p);
    });
  }
  void describe(Description&) const {}
};

}  // namespace

Var group_norm(const Var& xv, const Var& gammav, const Var& betav, std::int64_t groups, const Segments* given,
               double eps) {
  const Tensor &x = xv.value(), &gamma = gammav.value(), &beta = betav.value();
  const std::int64_t C = check_channels("group_norm", x, gamma, beta);
  FOLDGRAD_CHECK(groups >= 1 && C % groups == 0, "group_norm: groups must divide the number of channels, {}, got {}", C,
                 groups);
  const std::optional<Segments> samples = given ? std::optional(*given) : std::nullopt;
  const GroupNormShape shape = shape_of(x, samples, groups);
  FOLDGRAD_CHECK(!samples || (samples->rows() == shape.rows && samples->device() == x.device()),
                 "group_norm: the samples must match the rows of x ({}), got {} rows on {}", describe(x),
                 samples->rows(), name(samples->device()));
  FOLDGRAD_CHECK(eps > 0, "group_norm: eps must be positive, got {}", eps);

  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  return dispatch_floating("group_norm", x.dtype(), [&]<class T>(Type<T>) {
    using Value = compute_t<T>;
    const Tensor mu = Tensor::empty({shape.samples, groups}, dtype_of<Value>, x.device()),
                 rstd = Tensor::empty({shape.samples, groups}, dtype_of<Value>, x.device());
    const GroupNormForward<T> p{.y = y.data<T>(),
                                .mu = mu.data<Value>(),
                                .rstd = rstd.data<Value>(),
                                .x = x.data<T>(),
                                .gamma = gamma.data<T>(),
                                .beta = beta.data<T>(),
                                .shape = shape,
                                .eps = Value(eps)};
    FOLDGRAD_RUN(x.device(), group_norm, p);
    return xv.tape().record(y, {xv, gammav, betav},
                            GroupNormNode{.x = x, .gamma = gamma, .mu = mu, .rstd = rstd, .samples = samples});
  });
}

}  // namespace foldgrad
