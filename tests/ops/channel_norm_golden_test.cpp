// Replays the traces of tests/golden, which an independent implementation of the specification wrote.
#include <filesystem>

#include "engine/files/safetensors.h"
#include "ops/channel_norm/channel_norm.h"
#include "ops/channel_norm/group_rms.h"
#include "ops/layer_norm/layer_norm.h"
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

Var stateless(const std::string& layer, double eps, const Var& x, const Var& gamma, const Var& beta) {
  if (layer == "ln") return layer_norm(x, gamma, beta, eps);
  return rms_norm(x, gamma, eps);
}

void replay(const std::string& file, DType dtype, Device device, double tolerance) {
  const Trace trace = read_safetensors(FOLDGRAD_SOURCE_DIR "/tests/golden/" + file + ".safetensors");
  const TraceOptions options = trace_options(trace.metadata);
  const Tensor& x = trace.tensors.at("x");
  const std::int64_t C = x.shape()[-1];
  const auto on_device = [&](const Tensor& t) { return t.to(dtype).to(device); };
  const Tensor gamma = on_device(trace.tensors.at("gamma")), beta = on_device(trace.tensors.at("beta"));
  const DType state_dtype = dtype == DType::f64 ? DType::f64 : DType::f32;
  ChannelNormState state;
  if (options.channel) {
    state = ChannelNormState::create(*options.channel, C, state_dtype, device);
    state.iters.copy_from(Tensor::of<std::int64_t>({}, {options.start_iters}));
  }
  Comparison same(trace, tolerance);
  for (std::int64_t t = 0; t < x.shape()[0]; ++t) {
    same.step(t);
    Tape tape;
    const Var xt = tape.variable(on_device(same.expected("x"))), g = tape.variable(gamma), b = tape.variable(beta);
    Var y;
    if (options.channel) {
      const Tensor real = same.expected("mask").to(device);
      const Var in = options.groups ? group_rms(xt, options.groups, options.channel->eps) : xt;
      y = channel_norm(in, g, b, options.masked ? &real : nullptr, state, *options.channel, /*training=*/true);
    } else {
      y = stateless(options.layer, options.eps, xt, g, b);
    }
    tape.backward(y, on_device(same.expected("dy")));
    if (options.layer == "rmsnorm") {  // ours has no beta
      Tensor want = same.expected("y").clone();
      for (std::int64_t i = 0; i < want.size(); ++i)
        want.data<double>()[i] -= trace.tensors.at("beta").data<double>()[i % C];
      EXPECT_TRUE(close(y.value(), want, tolerance)) << "y at step " << t + 1;
    } else {
      same("y", y.value());
      same("dbeta", tape.grad(b));
    }
    same("dx", tape.grad(xt));
    same("dgamma", tape.grad(g));
    const auto buffers = state.named();
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
