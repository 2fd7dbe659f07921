#include "models/normalizers/normalizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/normalizers/kinds.h"
#include "models/normalizers/parameter_as.h"
#include "ops/channel_norm/channel_norm_math.h"
#include "ops/watch_channels/watch_channels.h"

namespace foldgrad {
namespace {

// Returns the means of a window [M, C] for each channel.
std::vector<NormDiagnostics::Means> means_of(const Tensor& window) {
  const std::vector<double> values = window.to(Device::cpu).to(DType::f64).values<double>();
  const std::int64_t M = window.shape()[0], C = window.shape()[1];
  std::vector<NormDiagnostics::Means> means;
  for (std::int64_t c = 0; c < C; ++c) {
    const channel_norm_math::Window<double> of_channel{values.data() + c, M, C};
    means.push_back({channel_norm_math::arithmetic_mean(of_channel), channel_norm_math::geometric_mean(of_channel, 0)});
  }
  return means;
}

std::int64_t item_or_zero(const NamedTensors& state, const char* name) {
  const auto found = state.find(name);
  return found == state.end() ? 0 : found->second.to(Device::cpu).data<std::int64_t>()[0];
}

}  // namespace

Normalizer::Normalizer(const NormalizerSite& site)
    : info_(site.info), options_(site.options), site_(site.site), channels_(site.channels) {}

Var Normalizer::apply(const Var& x, const NormContext& context) {
  const Shape& shape = x.shape();
  FOLDGRAD_CHECK(shape.rank() >= 1 && shape[-1] == channels_, "{} ({}): x must have {} channels, got {}", site_,
                 info_.name, channels_, describe(x.value()));
  const Tape::Scope scope(x.tape(), site_);
  if (!records_ || !context.training) return forward(x, context);
  records_->push_back(std::make_shared<ChannelRecord>());
  return recorded(x, context, records_->back());
}

Var Normalizer::recorded(const Var& x, const NormContext& context, std::shared_ptr<ChannelRecord> record) {
  const DType dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const std::int64_t counted = counted_rows(site_.c_str(), x.value(), context.counted);
  record->moments = channel_moments(first_rows(x.value(), counted), /*with_mean=*/false, context.communicator);
  Tensor offset = Tensor::zeros({channels_}, dtype, x.device());
  for (const Parameter* p : parameters())
    if (p->name == site_ + ".bias") offset = p->value.dtype() == dtype ? p->value : p->value.to(dtype);
  const Var y = forward(x, context);
  // If forward() returns x itself, a node that watches x would change the order in which x's gradients are added.
  if (y.id() == x.id()) return y;
  return watch_channels(y, offset, std::move(record), context.communicator);
}

Var Normalizer::on_tape(Parameter& parameter, const Var& x) { return parameter_as(x.tape(), parameter, x.dtype()); }

void Normalizer::restore(const NamedTensors& snapshot) {
  copy_into(fmt::format("{} ({})", site_, info_.name), state(), snapshot);
}

NamedTensors Normalizer::statistics() const {
  NamedTensors all = state();
  std::erase_if(all, [](const auto& named) {
    return named.first != "run_mean" && named.first != "run_var" && named.first != "phi";
  });
  return all;
}

void Normalizer::reset_iterations() {
  for (auto&& [name, tensor] : state())
    if (name == "iters" || name == "steps") tensor.zero();
}

NormDiagnostics Normalizer::diagnostics() const {
  const auto buffers = state();
  const char* counter = buffers.contains("steps") ? "steps" : "iters";  // prepbn's "iters" belong to its RepBN
  NormDiagnostics d{.iterations = item_or_zero(buffers, counter), .skips = item_or_zero(buffers, "skips")};
  if (const auto window = buffers.find("win_sq"); window != buffers.end()) d.window = means_of(window->second);
  auto variance = buffers.find("run_var");
  if (variance == buffers.end()) variance = buffers.find("phi");
  if (variance == buffers.end()) return d;
  const std::vector<double> values = variance->second.to(Device::cpu).to(DType::f64).values<double>();
  const auto [least, greatest] = std::ranges::minmax_element(values);
  d.least_variance = *least;
  d.greatest_variance = *greatest;
  return d;
}

}  // namespace foldgrad
