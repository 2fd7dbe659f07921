// channel_norm against the model of channel_norm_model.h, on random histories of all methods and options; and the
// models against the traces of tests/golden, which another program wrote: without that, a misreading could be a model's
// and its operation's alike.
#include "tests/ops/channel_norm_model.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "engine/files/safetensors.h"
#include "ops/channel_norm/channel_norm.h"
#include "tests/harness/compare.h"
#include "tests/harness/op_spec.h"
#include "tests/harness/properties.h"
#include "tests/ops/channel_norm_histories.h"
#include "tests/ops/channel_norm_options.h"
#include "tests/ops/power_norm_model.h"

namespace foldgrad::testing {
namespace {

bool has_window(const ChannelNormOptions& o) {
  return o.forward == ForwardAverage::geometric || o.forward == ForwardAverage::arithmetic;
}

class Generator : public Histories {
 public:
  using Histories::Histories;

  ChannelNormOptions options() {
    using O = ChannelNormOptions;
    const O methods[] = {O::un(),          O::un(),          O::un(),   O::un(),
                         O::un_released(), O::un_released(), O::mabn(), O::mabn_released(),
                         O::bn(),          O::rbn(),         O::qmbn(), O::pn_star()};
    O o = methods[below(12)];
    const double alphas[] = {0, 0.5, 0.9, 1}, epss[] = {1e-5, 1e-3, 1};
    o.window_forward = below(5) ? 1 + below(10) : 1;
    o.window_backward = coin() ? o.window_forward : 1 + below(10);
    if (o.forward == ForwardAverage::arithmetic && o.window_forward == 1) o.window_backward = 1;
    o.warmup = below(8) ? below(12) : 995 + below(20);  // r begins after both of 1000 and this
    o.alpha_forward = alphas[below(4)];
    o.alpha_backward = coin() ? o.alpha_forward : 0.7;
    o.eps = epss[below(3)];
    // With one entry AM = GM; UN alone knows, for others rounding would decide.
    o.filtration = coin() && has_window(o) && (o.window_forward > 1 || o.forward == ForwardAverage::geometric);
    o.granularity = Granularity(below(4));
    o.ddof = below(2);
    o.flag_low = below(4) != 0;
    o.hold_on_skip = coin();
    o.psi_after_skip = PsiAfterSkip(below(3));
    if (o.form != ChannelForm::paper) return o;
    o.hold_non_finite = coin();
    if (o.statistic == ChannelStatistic::mean_square && below(4) == 0)
      o.rescale = coin() ? Rescale::backward : Rescale::both;
    if (o.forward == ForwardAverage::geometric && below(3) == 0) {  // the family, of which the methods are members
      o.forward = ForwardAverage(o.window_forward == 1 ? 2 * below(2) : below(4));
      o.backward = BackwardAverage(below(4));
      o.filtration = o.filtration && has_window(o);
    }
    return o;
  }
};

std::vector<Real> joined(const std::vector<Column>& ring) {
  std::vector<Real> all;
  for (const Column& row : ring) all.insert(all.end(), row.begin(), row.end());
  return all;
}

void compare_state(const std::string& at, const ChannelNormState& state, const ChannelNormModel& model) {
  const std::map<std::string, std::vector<Real>> want{{"run_mean", model.run_mean},
                                                      {"run_var", model.run_var},
                                                      {"psi_ema", model.psi_ema},
                                                      {"win_sq", joined(model.win_sq)},
                                                      {"win_g", joined(model.win_g)}};
  for (const auto& [name, buffer] : state.named())
    if (want.count(name)) compare(at + name, buffer, want.at(name));
  if (state.skips.item() != model.skips) throw std::runtime_error(at + "skips");
}

// How often histories came to what they promise.
using Reached = std::map<std::string, int>;

void count(Reached& reached, const ChannelNormOptions& o, const ModelStep& step, bool padded) {
  const bool released = o.rescale != Rescale::none,
             mabn = released && o.forward == ForwardAverage::arithmetic && o.backward == BackwardAverage::arithmetic;
  const std::string name = mabn ? "released mabn" : o.form == ChannelForm::released ? "released un" : "paper";
  const bool single = o.window_forward == 1 && o.window_backward == 1;
  const auto when = [&](const std::string& what, bool is) {
    if (is) reached[name + ", " + what] += 1;
  };
  const std::string with = std::string(single ? ", M = 1" : "") + (padded ? ", padded" : "");
  when("step" + with, true);
  for (std::size_t c = 0; c < step.r.size(); ++c) {
    when("outlier", step.outlier[c]);
    when("r != 1" + with, step.r[c] != 1);
    when("r = 1/5", step.r[c] == 0.2L);
    when("r = 5", step.r[c] == 5);
  }
}

// Compares steps up to the first close call.
Reached follow(unsigned seed, Device device) {
  Generator random(seed);
  const ChannelNormOptions options = random.options();
  const int P = random.below(20) ? 1 + random.below(6) : 60 + random.below(90), C = 1 + random.below(4),
            steps = 4 + random.below(24);
  // Windows with NaN decide about outliers by chance; they are kept free of it, or the filter is off.
  const bool defined = options.form == ChannelForm::paper && (options.hold_non_finite || !options.filtration);
  const bool padded = random.coin(), non_finite = defined && random.below(3) == 0;
  const long start = random.coin() ? 0 : 990 + random.below(20);
  ChannelNormModel model(options, C, kTolerance, start);
  ChannelNormState state = ChannelNormState::create(options, C, DType::f64, device);
  state.iters.copy_from(Tensor::of<std::int64_t>({}, {start}));
  Column levels(C);
  for (Real& level : levels) level = std::exp(random.normal());
  const Column gamma = random.gradients(C, 1)[0], beta = random.gradients(C, 1)[0];
  Reached reached;
  for (int s = 0; s < steps; ++s) {
    const Columns x = random.activations(P, levels, non_finite), dy = random.gradients(P, C);
    const std::vector<int> real = random.counted(P, padded);
    const ModelStep want = model.step(x, dy, real, gamma, beta);
    if (want.close_call) break;
    Tape tape;
    const Var xv = tape.variable(matrix(x, device)), g = tape.variable(vector(gamma, device)),
              b = tape.variable(vector(beta, device));
    const Var y = channel_norm(xv, g, b, state, options, /*training=*/true, std::count(real.begin(), real.end(), 1));
    tape.backward(y, matrix(dy, device));
    const std::string at = fmt::format("history {}, step {}: ", seed, s + 1);
    compare(at + "y", y.value(), rows_of(want.y));
    compare(at + "dx", tape.grad(xv), rows_of(want.dx));
    compare(at + "dgamma", tape.grad(g), want.dgamma);
    compare(at + "dbeta", tape.grad(b), want.dbeta);
    compare_state(at, state, model);
    count(reached, options, want, padded);
  }
  return reached;
}

// 100 runs of RapidCheck make 10,000 histories.
RC_GTEST_PROP(ChannelNormModel, TenThousandHistories, (unsigned seed)) {
  int compared = 0;
  for (unsigned i = 0; i < 100; ++i)
    for (const auto& [what, times] : follow(seed + i * 7919, Device::cpu))
      if (what.find("step") != std::string::npos) compared += times;
  RC_ASSERT(compared > 1000);  // of about 1500
}
TEST(ChannelNormModel, HistoriesReachWhatTheyPromise) {
  Reached all;
  for (unsigned seed = 1; seed <= 1000; ++seed)
    for (const auto& [what, times] : follow(seed, Device::cpu)) all[what] += times;
  for (const std::string name : {"paper", "released un", "released mabn"})
    for (const char* what : {"step", "step, padded", "step, M = 1", "step, M = 1, padded"})
      EXPECT_GE(all[name + ", " + what], 20) << name << ", " << what;
  for (const std::string name : {"paper", "released un", "released mabn"})
    for (const char* what : {"outlier", "r != 1", "r != 1, padded", "r = 1/5", "r = 5"})
      EXPECT_GE(all[name + ", " + what], 20) << name << ", " << what;
  for (const char* what : {"r != 1, M = 1", "r != 1, M = 1, padded"})
    EXPECT_GE(all[std::string("released mabn, ") + what], 20) << what;
}
TEST(ChannelNormModel, HistoriesOnCuda) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  for (unsigned seed = 1; seed <= 60; ++seed) EXPECT_NO_THROW(follow(seed, Device::cuda));
}

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

// The division in front of `pn`: the channels of a token, in groups, by their root mean square. [PN-4]
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
