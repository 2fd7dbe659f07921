// The models of channel_norm_model.h and power_norm_model.h against the traces of tests/golden, which another program
// wrote: without that, a misreading could be a model's and its operation's alike.
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/files/safetensors.h"
#include "tests/harness/compare.h"
#include "tests/ops/channel_norm_model.h"
#include "tests/ops/channel_norm_options.h"
#include "tests/ops/power_norm_model.h"

namespace foldgrad::testing {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> traces() {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(FOLDGRAD_SOURCE_DIR "/tests/golden")) {
    if (entry.path().extension() != ".safetensors") continue;
    const TraceOptions options = trace_options(read_safetensors(entry.path()).metadata);
    if (options.channel || options.power) files.push_back(entry.path().stem());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Row t of an array [T, rows, C], or [T, C] with one row, as columns.
Columns columns(const Tensor& all, std::int64_t t) {
  const std::int64_t T = all.shape()[0], C = all.shape()[-1], rows = all.size() / (T * C);
  Columns out(C, Column(rows));
  for (std::int64_t c = 0; c < C; ++c)
    for (std::int64_t i = 0; i < rows; ++i) out[c][i] = all.data<double>()[(t * rows + i) * C + c];
  return out;
}
Column row(const Tensor& all, std::int64_t t) {
  Column out;
  for (const Column& column : columns(all, t)) out.push_back(column[0]);
  return out;
}
Columns transposed(const Columns& a) {
  Columns out(a[0].size(), Column(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a[0].size(); ++j) out[j][i] = a[i][j];
  return out;
}

void expect_same(const Columns& got, const Columns& want, const std::string& what) {
  for (std::size_t c = 0; c < want.size(); ++c)
    for (std::size_t i = 0; i < want[c].size(); ++i)
      // Written in double, over some 30 iterations.
      EXPECT_TRUE(std::fabs(got[c][i] - want[c][i]) <= 1e-12L * (1 + std::fabs(want[c][i])))
          << what << " " << c << " " << i << ": got " << got[c][i] << ", want " << want[c][i];
}
void expect_same(const Column& got, const Column& want, const std::string& what) {
  expect_same(Columns{got}, Columns{want}, what);
}

// What `pn` has in front: the channels of a token, in groups, are divided by their root mean square. [PN-4]
struct Groups {
  Columns x, root;  // [C][P]: x divided, and by what
  std::size_t width;

  Groups(const Columns& given, std::size_t groups, Real eps) : x(given), root(given), width(given.size() / groups) {
    for (std::size_t i = 0; i < x[0].size(); ++i)
      for (std::size_t begin = 0; begin < x.size(); begin += width) {
        Real sum = 0;
        for (std::size_t c = begin; c < begin + width; ++c) sum += given[c][i] * given[c][i];
        for (std::size_t c = begin; c < begin + width; ++c) {
          root[c][i] = std::sqrt(sum / Real(width) + eps);
          x[c][i] = given[c][i] / root[c][i];
        }
      }
  }
  Columns backward(const Columns& dy) const {
    Columns dx = dy;
    for (std::size_t i = 0; i < x[0].size(); ++i)
      for (std::size_t begin = 0; begin < x.size(); begin += width) {
        Real dot = 0;
        for (std::size_t c = begin; c < begin + width; ++c) dot += dy[c][i] * x[c][i] / Real(width);
        for (std::size_t c = begin; c < begin + width; ++c) dx[c][i] = (dy[c][i] - x[c][i] * dot) / root[c][i];
      }
    return dx;
  }
};

// By their names in traces, [rows][C].
using ModelState = std::map<std::string, Columns>;
ModelState state_of(const ChannelNormModel& model) {
  return {{"run_mean", {model.run_mean}},
          {"run_var", {model.run_var}},
          {"psi_ema", {model.psi_ema}},
          {"win_sq", model.win_sq},
          {"win_g", model.win_g}};
}
ModelState state_of(const PowerNormModel& model) { return {{"phi", {model.phi}}, {"nu_ema", {model.nu_ema}}}; }

class ChannelNormModelTrace : public ::testing::TestWithParam<std::string> {};

template <class Model>
void replay(const SafetensorsFile& trace, const TraceOptions& options, Model model) {
  const auto array = [&](const std::string& name) { return trace.tensors.at(name); };
  const std::int64_t T = array("x").shape()[0], P = array("x").shape()[1], C = array("x").shape()[2];
  for (std::int64_t t = 0; t < T; ++t) {
    std::vector<int> real(P);
    for (std::int64_t p = 0; p < P; ++p)
      real[p] = !options.masked || array("mask").template data<std::uint8_t>()[t * P + p];
    const Groups groups(columns(array("x"), t), options.groups ? options.groups : 1, options.eps);
    const Columns x = options.groups ? groups.x : columns(array("x"), t);
    const ModelStep got = model.step(x, columns(array("dy"), t), real, row(array("gamma").reshape({1, C}), 0),
                                     row(array("beta").reshape({1, C}), 0));
    const std::string at = " at step " + std::to_string(t + 1);
    EXPECT_FALSE(got.close_call) << at;
    expect_same(got.y, columns(array("y"), t), "y" + at);
    expect_same(options.groups ? groups.backward(got.dx) : got.dx, columns(array("dx"), t), "dx" + at);
    expect_same(got.dgamma, row(array("dgamma"), t), "dgamma" + at);
    expect_same(got.dbeta, row(array("dbeta"), t), "dbeta" + at);
    const ModelState state = state_of(model);
    for (const auto& [name, tensor] : trace.tensors)
      if (name.rfind("state.", 0) == 0 && tensor.dtype() == DType::f64)
        expect_same(state.at(name.substr(6)), transposed(columns(tensor, t)), name + at);
    if (trace.tensors.count("state.skips")) {
      EXPECT_EQ(model.skips, array("state.skips").template data<std::int64_t>()[t]) << at;
    }
  }
}
TEST_P(ChannelNormModelTrace, IsReplayed) {
  const SafetensorsFile trace = read_safetensors(FOLDGRAD_SOURCE_DIR "/tests/golden/" + GetParam() + ".safetensors");
  const TraceOptions options = trace_options(trace.metadata);
  const int C = int(trace.tensors.at("x").shape()[2]);
  if (options.power)
    replay(trace, options, PowerNormModel(*options.power, C, options.start_iters));
  else
    replay(trace, options, ChannelNormModel(*options.channel, C, kTolerance, options.start_iters));
}
INSTANTIATE_TEST_SUITE_P(Golden, ChannelNormModelTrace, ::testing::ValuesIn(traces()),
                         [](const auto& info) { return info.param; });

TEST(ChannelNormModelTrace, EveryMethodHasOne) {
  std::map<std::string, int> files;
  for (const std::string& file : traces()) files[file.substr(0, file.rfind('_'))] += 1;
  for (const char* layer : {"bn", "mabn", "pn", "pn_star", "un_paper", "un_reference"})
    EXPECT_GE(files[layer], 2) << layer;
}

}  // namespace
}  // namespace foldgrad::testing
