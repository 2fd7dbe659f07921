// Replays the traces of tests/golden, which an independent implementation of the specification wrote.
#include <filesystem>

#include "engine/files/safetensors.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/power_norm/group_rms.h"
#include "ops/rms_norm/rms_norm.h"
#include "tests/harness/op_spec.h"
#include "tests/ops/channel_norm_options.h"

namespace foldgrad::testing {
namespace {

namespace fs = std::filesystem;
using Trace = SafetensorsFile;

std::vector<std::string> trace_files() {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(FOLDGRAD_SOURCE_DIR "/tests/golden"))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path().stem().string());
  std::sort(files.begin(), files.end());
  return files;
}

// Compares what a run gave with the trace's entry of one step.
class Comparison {
 public:
  Comparison(const Trace& trace, double tolerance) : trace_(trace), tolerance_(tolerance) {}
  void step(std::int64_t t) { t_ = t; }
  Tensor expected(const std::string& name) const {
    const Tensor& all = trace_.tensors.at(name);
    return all.slice(t_, t_ + 1).reshape(all.shape().without(0));
  }
  void operator()(const std::string& name, const Tensor& got) const {
    EXPECT_TRUE(close(got, expected(name), tolerance_)) << name << " at step " << t_ + 1;
  }

 private:
  const Trace& trace_;
  double tolerance_;
  std::int64_t t_ = 0;
};

// What a trace is of, with its state.
struct Layer {
  TraceOptions options;
  ChannelNormState channel = {};
  PowerNormState power = {};

  Layer(const TraceOptions& options, std::int64_t C, DType dtype, Device device) : options(options) {
    if (options.channel) channel = ChannelNormState::create(*options.channel, C, dtype, device);
    if (options.power) power = PowerNormState::create(C, dtype, device);
    const Tensor start = Tensor::of<std::int64_t>({}, {options.start_iters});
    if (options.channel) channel.iters.copy_from(start);
    if (options.power) power.iters.copy_from(start);
  }
  Var operator()(const Var& x, const Var& gamma, const Var& beta, std::int64_t counted) const {
    if (options.channel) return channel_norm(x, gamma, beta, channel, *options.channel, /*training=*/true, counted);
    if (options.power) {
      const Var in = options.groups ? group_rms(x, options.groups, options.eps) : x;
      return power_norm(in, gamma, beta, power, *options.power, /*training=*/true, counted);
    }
    if (options.layer == "ln") return layer_norm(x, gamma, beta, options.eps);
    return rms_norm(x, gamma, options.eps);
  }
  NamedTensors buffers() const {
    if (options.channel) return channel.named();
    return options.power ? power.named() : NamedTensors{};
  }
};

// The rows of a step, those that count first.
struct Order {
  std::vector<std::int64_t> rows = {};
  std::int64_t counted = 0;

  Order(const Tensor& x, const Tensor& mask) {
    for (const bool wanted : {true, false})
      for (std::int64_t r = 0; r < x.shape()[0]; ++r)
        if ((!mask.defined() || mask.data<std::uint8_t>()[r]) == wanted) rows.push_back(r), counted += wanted;
  }
  Tensor sorted(const Tensor& t) const { return moved(t, false); }
  Tensor back(const Tensor& t) const { return moved(t.to(Device::cpu).to(DType::f64), true); }

 private:
  Tensor moved(const Tensor& t, bool back) const {
    const std::int64_t C = t.shape()[1];
    const Tensor to = Tensor::empty(t.shape(), DType::f64);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::int64_t sorted = std::int64_t(i);
      std::copy_n(t.data<double>() + (back ? sorted : rows[i]) * C, C,
                  to.data<double>() + (back ? rows[i] : sorted) * C);
    }
    return to;
  }
};

void replay(const std::string& file, DType dtype, Device device, double tolerance) {
  const Trace trace = read_safetensors(FOLDGRAD_SOURCE_DIR "/tests/golden/" + file + ".safetensors");
  const TraceOptions options = trace_options(trace.metadata);
  const Tensor& x = trace.tensors.at("x");
  const std::int64_t C = x.shape()[-1];
  const auto on_device = [&](const Tensor& t) { return t.to(dtype).to(device); };
  const Tensor gamma = on_device(trace.tensors.at("gamma")), beta = on_device(trace.tensors.at("beta"));
  const DType state_dtype = dtype == DType::f64 ? DType::f64 : DType::f32;
  const Layer layer(options, C, state_dtype, device);
  Comparison same(trace, tolerance);
  for (std::int64_t t = 0; t < x.shape()[0]; ++t) {
    same.step(t);
    Tape tape;
    const Order order(same.expected("x"), options.masked ? same.expected("mask") : Tensor());
    const Var xt = tape.variable(on_device(order.sorted(same.expected("x")))), g = tape.variable(gamma),
              b = tape.variable(beta);
    const Var y = layer(xt, g, b, order.counted);
    tape.backward(y, on_device(order.sorted(same.expected("dy"))));
    if (options.layer == "rmsnorm") {  // ours has no beta
      Tensor want = same.expected("y").clone();
      for (std::int64_t i = 0; i < want.size(); ++i)
        want.data<double>()[i] -= trace.tensors.at("beta").data<double>()[i % C];
      EXPECT_TRUE(close(order.back(y.value()), want, tolerance)) << "y at step " << t + 1;
    } else {
      same("y", order.back(y.value()));
      same("dbeta", tape.grad(b));
    }
    same("dx", order.back(tape.grad(xt)));
    same("dgamma", tape.grad(g));
    const auto buffers = layer.buffers();
    for (const auto& [name, tensor] : trace.tensors)
      if (name.rfind("state.", 0) == 0) same(name, buffers.at(name.substr(6)));
  }
}

class ChannelNormTrace : public ::testing::TestWithParam<std::string> {};

TEST_P(ChannelNormTrace, ReplaysInF64) {
  for (Device device : devices()) replay(GetParam(), DType::f64, device, 1e-12);
}
// Outlier decisions could differ by rounding; in these traces none does. That the devices agree in f32 is tested with
// the specification of the operation.
TEST_P(ChannelNormTrace, ReplaysInF32) { replay(GetParam(), DType::f32, Device::cpu, 1e-4); }
INSTANTIATE_TEST_SUITE_P(Golden, ChannelNormTrace, ::testing::ValuesIn(trace_files()),
                         [](const auto& info) { return info.param; });

TEST(ChannelNormTrace, AllFilesAreThere) { EXPECT_GE(trace_files().size(), 36u); }

}  // namespace
}  // namespace foldgrad::testing
