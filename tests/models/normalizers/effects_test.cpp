// Tests that each option of each normalizer changes exactly the tensors that its row lists. One training step runs from
// the same state with and without the option; all other tensors must be bit-identical.
#include <algorithm>
#include <set>

#include "tests/models/normalizers/quick_normalizer.h"

namespace foldgrad::testing {
namespace {

using Names = std::set<std::string>;

constexpr std::int64_t kTokens = 10;

// The mean squares of a step and of its window. Channels 1 to 7 share them unless `window_by_channel` is true.
struct Scene {
  std::vector<double> window = {1, 1.44, 1.96}, window0 = {};  // mean squares; channel 0 uses window0 if not empty
  double q = 1.6, q0 = -1;         // mean squares of x; channel 0 uses q0 if it is not negative
  std::int64_t iterations = 7;     // number of earlier iterations; the step, the 8th, writes row 8 mod 3 = 2
  bool window_by_channel = false;  // if true, (c + 1)^2 fills the window of channel c, and its q is 1 % larger
};
const Scene kCalm, kLate{.iterations = 2000}, kHigh{.q = 400}, kLow{.q = 1e-4}, kInfinite{.q0 = INFINITY};
// Only channel 0 is an outlier: all values of its window are equal, and its q is larger. The windows of the other
// channels vary so much that channel 0 hardly matters in sums over channels.
const Scene kOneChannel{.window = {0.1, 1, 9}, .window0 = {1, 1, 1}, .q0 = 1.5};
const Scene kSpread{.window_by_channel = true};  // each q is 1 % above its window; channels differ far more
const Scene kBetween{.q = 2.4};  // the gap, 0.101, is between the thresholds 0.08 (ddof 0) and 0.12 (ddof 1)

struct Row {
  std::string normalizer;
  Options base;  // the options of both steps
  std::string option, value;
  Names changes;
  const Scene* scene = &kCalm;
  bool channel0_alone = false;  // true if only channel 0 changes
};

Tensor filled(const Tensor& like, unsigned seed, double mean) {
  // Each row has its own seed, so that a longer window begins with the rows of a shorter one.
  const Tensor t = Tensor::empty(like.shape(), DType::f64);
  const std::int64_t rows = like.shape().rank() == 2 ? like.shape()[0] : 1, columns = like.size() / rows;
  for (std::int64_t r = 0; r < rows; ++r)
    std::copy_n(randn({columns}, seed + unsigned(r), 0.1, mean).data<double>(), columns,
                t.data<double>() + r * columns);
  return t;
}

// Fills the state so that each of its tensors affects the step. Randomizes weights and biases.
void prepare(Normalizer& norm, const Scene& scene) {
  for (Parameter* p : norm.parameters())
    if (p->name.find("weight") != std::string::npos || p->name.find("bias") != std::string::npos)
      p->value.copy_from(randn(p->value.shape(), 5, 0.3, 1));
  for (auto&& [name, tensor] : norm.state()) {
    if (name == "iters" || name == "steps") tensor.copy_from(Tensor::of<std::int64_t>({}, {scene.iterations}));
    if (name == "run_var" || name == "phi") tensor.copy_from(filled(tensor, 11, 1.2));
    if (name == "run_mean") tensor.copy_from(filled(tensor, 12, 0.2));
    if (name == "psi_ema" || name == "nu_ema") tensor.copy_from(filled(tensor, 13, 0.3));
    if (name == "win_g") tensor.copy_from(filled(tensor, 14, 0.3));
    if (name != "win_sq") continue;
    for (std::int64_t i = 0; i < tensor.size(); ++i) {
      const std::int64_t c = i % kChannels;
      const auto& window = c == 0 && !scene.window0.empty() ? scene.window0 : scene.window;
      tensor.data<double>()[i] =
          scene.window_by_channel ? double((c + 1) * (c + 1)) : window[std::size_t(i / kChannels) % window.size()];
    }
  }
}

// Returns an x whose first `counted` tokens have the mean squares of the scene.
Tensor inputs(const Scene& scene, std::int64_t counted) {
  const Tensor x = randn({2, 5, kChannels}, 21, 1, 0.3);
  double* v = x.data<double>();
  for (std::int64_t c = 0; c < kChannels; ++c) {
    double want = c == 0 && scene.q0 >= 0 ? scene.q0 : scene.q, squares = 0;
    if (scene.window_by_channel) want = 1.01 * double((c + 1) * (c + 1));
    for (std::int64_t t = 0; t < counted; ++t) squares += v[t * kChannels + c] * v[t * kChannels + c];
    if (std::isinf(want)) v[c] = want;  // only in the first token
    for (std::int64_t t = 0; t < kTokens && !std::isinf(want); ++t)
      v[t * kChannels + c] *= std::sqrt(want / (squares / double(counted)));
  }
  return x;
}

// Returns all results of a step, by name.
NamedTensors step(const std::string& name, const Options& options, const Scene& scene) {
  const auto norm = make_normalizer(name, options, "norm", kChannels, DType::f64);
  prepare(*norm, scene);
  constexpr std::int64_t counted = 8;  // the last two of kTokens are padding
  NamedTensors results;
  if (norm->info().residual) {
    const ResidualConstants constants = norm->info().residual(norm->options());
    results = {{"residual_scale", Tensor::full({}, constants.scale, DType::f64)},
               {"initial_gain", Tensor::full({}, constants.initial_gain, DType::f64)}};
  }
  Tape tape;
  std::vector<Var> penalties;
  const Var x = tape.variable(inputs(scene, counted));
  const Var y = norm->apply(x, {.training = true, .counted = counted, .penalties = &penalties});
  tape.backward(y, randn(y.shape(), 22, 1, 0.2));
  results["y"] = y.value(), results["dx"] = tape.grad(x);
  for (const Var& penalty : penalties) results["penalty"] = penalty.value();
  for (const Parameter* p : norm->parameters())
    if (p->has_grad) results["d" + p->name.substr(5)] = p->grad;
  for (const auto& [state, tensor] : norm->state()) results[state] = tensor;
  return results;
}

// Returns true if a and b differ in a channel other than 0.
bool differ_behind_channel0(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.shape().rank() == 0) return false;
  for (std::int64_t i = 0; i < a.size(); ++i)
    if (i % kChannels != 0 && a.data<double>()[i] != b.data<double>()[i]) return true;
  return false;
}

std::vector<Row> un_rows() {
  const Options un{{"warmup", "0"}, {"window", "3"}};
  const auto with = [&](const Options& more) {
    Options all = more;
    all.insert(un.begin(), un.end());
    return all;
  };
  const Options filter = with({{"filtration", "1"}, {"granularity", "layer_sum"}}),
                late_reference = with({{"mode", "reference"}});
  const Names statistics{"y", "dx", "dweight", "run_var", "psi_ema", "win_g"};
  Names all = statistics, outlier = statistics;
  all.insert("win_sq");
  outlier.insert({"win_sq", "skips"});
  return {
      {"un", un, "mode", "reference", {"dx", "psi_ema", "win_g"}},
      {"un", with({{"window_backward", "3"}}), "window", "2", all},
      {"un", un, "window", "2", all},
      {"un", un, "window_backward", "2", {"dx", "psi_ema", "win_g"}},
      {"un", un, "warmup", "100", statistics},
      {"un", un, "warmup", "8", {}},
      {"un", un, "warmup", "9", statistics},
      {"un", with({{"alpha_backward", "0.9"}}), "alpha", "0.5", {"run_var"}},
      {"un", un, "alpha", "0.5", {"run_var", "dx", "psi_ema"}},
      {"un", un, "alpha_backward", "0.5", {"dx", "psi_ema"}},
      {"un", un, "eps", "1e-3", {"y", "dx", "dweight", "psi_ema", "win_g"}},
      {"un", un, "filtration", "1", {}},
      {"un", un, "filtration", "1", outlier, &kHigh},
      {"un", un, "filtration", "1", outlier, &kLow},
      {"un", with({{"filtration", "1"}}), "granularity", "layer_sum", outlier, &kSpread},
      {"un", filter, "granularity", "channel", outlier, &kOneChannel, true},
      {"un", filter, "granularity", "layer_any", outlier, &kOneChannel},
      {"un", filter, "granularity", "pooled", {}, &kOneChannel},
      {"un", filter, "granularity", "pooled", outlier, &kSpread},
      {"un", filter, "granularity", "channel", {}, &kSpread},
      {"un", filter, "ddof", "0", outlier, &kBetween},
      {"un", filter, "ddof", "0", {}, &kCalm},
      {"un", filter, "flag_low", "0", outlier, &kLow},
      {"un", filter, "flag_low", "0", {}, &kHigh},
      {"un", filter, "hold_on_skip", "1", {"run_var", "skips_in_a_row"}, &kHigh},
      {"un", filter, "hold_on_skip", "1", {"skips_in_a_row"}, &kCalm},  // this counter exists only with hold_on_skip
      {"un", un, "hold_non_finite", "0", outlier, &kInfinite, true},
      {"un", un, "hold_non_finite", "0", {}, &kCalm},
      {"un", filter, "psi_after_skip", "literal", {"psi_ema"}, &kHigh},
      {"un", filter, "psi_after_skip", "freeze", {"psi_ema"}, &kHigh},
      {"un", filter, "psi_after_skip", "freeze", {}, &kCalm},
      {"un", un, "rescale", "backward", {"dx", "dweight", "psi_ema", "win_g"}, &kLate},
      {"un", un, "rescale", "both", {"y", "dx", "dweight", "psi_ema", "win_g"}, &kLate},
      {"un", un, "rescale", "both", {}, &kCalm},
      {"un", late_reference, "rescale", "none", {"dx", "dweight", "psi_ema", "win_g"}, &kLate},
      {"un", un, "forward_average", "arithmetic", statistics},
      {"un", un, "forward_average", "none", all},
      {"un", un, "forward_average", "exponential", all},
      {"un", un, "backward_average", "none", {"dx", "psi_ema", "win_g"}},
      {"un", un, "backward_average", "arithmetic", {"dx", "psi_ema"}},
      {"un", un, "backward_average", "exponential", {"dx", "psi_ema", "win_g"}},
  };
}

std::vector<Row> other_channel_rows() {
  const Options mabn{{"warmup", "0"}, {"window", "3"}}, pn_star{{"warmup", "0"}};
  Options mabn_released = mabn, pn_released = pn_star;
  mabn_released["mode"] = pn_released["mode"] = "reference";
  return {
      {"bn", {}, "alpha", "0.5", {"run_mean", "run_var"}},
      {"bn", {}, "eps", "1e-3", {"y", "dx", "dweight"}},
      {"qmbn", {}, "alpha", "0.5", {"run_var"}},
      {"qmbn", {}, "eps", "1e-3", {"y", "dx", "dweight"}},
      {"rbn", {}, "alpha", "0.5", {"run_mean", "run_var", "penalty"}},
      {"rbn", {}, "eps", "1e-3", {}},
      {"rbn", {}, "eps", "1e-3", {"y", "dx", "dweight"}, &kLow},
      {"rbn", {}, "mean_weight", "1", {"penalty"}},
      {"rbn", {}, "variance_weight", "1", {"penalty"}},
      {"mabn", mabn, "mode", "reference", {"y", "dx", "dweight", "run_var", "win_g", "win_sq"}},
      {"mabn", mabn, "window", "2", {"dx", "win_g"}},
      {"mabn", mabn_released, "window", "2", {"y", "dx", "dweight", "run_var", "win_g", "win_sq"}},
      {"mabn", mabn, "warmup", "100", {"y", "dx", "dweight", "win_g"}},
      {"mabn", mabn_released, "warmup", "100", {"y", "dx", "dweight", "run_var", "win_g"}},
      {"mabn", mabn_released, "warmup", "3000", {"y", "dx", "dweight", "run_var", "win_g"}, &kLate},
      {"mabn", mabn, "alpha", "0.5", {"y", "dx", "dweight", "run_var", "win_g"}},
      {"mabn", mabn_released, "alpha", "0.5", {"run_var"}},
      {"mabn", mabn, "eps", "1e-3", {"y", "dx", "dweight", "win_g"}},
      {"mabn", mabn_released, "eps", "1e-3", {"y", "dx", "dweight", "win_g"}},
      {"pn_star", pn_star, "mode", "reference", {"y", "dx", "dweight", "run_var", "psi_ema", "phi", "nu_ema"}},
      {"pn_star", pn_star, "warmup", "100", {"y", "dx", "dweight", "psi_ema"}},
      {"pn_star", pn_released, "warmup", "100", {"y", "dx", "dweight", "phi", "nu_ema"}},
      {"pn_star", pn_star, "alpha", "0.5", {"y", "dx", "dweight", "run_var", "psi_ema"}},
      {"pn_star", pn_released, "alpha", "0.5", {"dx", "phi", "nu_ema"}},
      {"pn_star", pn_star, "eps", "1e-3", {"y", "dx", "dweight", "psi_ema"}},
      {"pn_star", pn_released, "eps", "1e-3", {"y", "dx", "dweight", "nu_ema"}},
      {"pn", pn_star, "mode", "reference", {"y", "dx", "dweight", "run_var", "psi_ema", "phi", "nu_ema"}},
      {"pn", pn_star, "warmup", "100", {"y", "dx", "dweight", "psi_ema"}},
      {"pn", pn_star, "alpha", "0.5", {"y", "dx", "dweight", "run_var", "psi_ema"}},
      {"pn", pn_star, "eps", "1e-3", {"y", "dx", "dweight", "run_var", "psi_ema"}},
      {"pn", pn_star, "groups", "2", {"y", "dx", "dweight", "run_var", "psi_ema"}},
      {"repbn", {}, "alpha", "0.5", {"run_mean", "run_var"}},
      {"repbn", {}, "eps", "1e-3", {"y", "dx", "dweight"}},
      {"repbn", {}, "eta", "0", {"y", "dx"}},
  };
}

std::vector<Row> other_rows() {
  const Options prepbn{{"total", "16"}};  // 7 of the 16 steps have passed
  const Names every_gradient{"y", "dx", "dbn.weight", "dbn.bias", "dbn.eta", "dln.weight", "dln.bias"};
  Names layer_norm_alone = every_gradient;
  layer_norm_alone.insert({"run_mean", "run_var", "iters"});
  return {
      {"prepbn", prepbn, "alpha", "0.5", {"run_mean", "run_var"}},
      {"prepbn", prepbn, "eps", "1e-3", {"y", "dx", "dbn.weight"}},
      {"prepbn", prepbn, "eta", "0", {"y", "dx"}},
      {"prepbn", prepbn, "ln_eps", "1e-3", {"y", "dx", "dln.weight"}},
      {"prepbn", prepbn, "start", "0.5", every_gradient},
      {"prepbn", prepbn, "total", "32", every_gradient},
      {"prepbn", prepbn, "warmup", "100", layer_norm_alone},
      {"ln", {}, "eps", "1e-3", {"y", "dx", "dweight"}},
      {"deepnorm", {}, "eps", "1e-3", {"y", "dx", "dweight"}},
      {"deepnorm", {}, "encoder_layers", "12", {"residual_scale", "initial_gain"}},
      {"deepnorm", {}, "decoder_layers", "12", {"residual_scale", "initial_gain"}},
      {"deepnorm", {}, "stack", "decoder", {"residual_scale", "initial_gain"}},
      {"deepnorm", {{"stack", "decoder"}}, "encoder_layers", "12", {}},
      {"rmsnorm", {}, "eps", "1e-3", {"y", "dx", "dweight"}},
      {"rmsnorm", {}, "eps_place", "outside", {"y", "dx", "dweight"}},
      {"rmsnorm", {}, "partial", "0.5", {"y", "dx", "dweight"}},
      {"rmsnorm", {}, "bias", "1", {"y", "dbias"}},
      {"scalenorm", {}, "eps", "1", {"y", "dx", "dscale"}, &kLow},
      {"scalenorm", {}, "eps", "1e-3", {}},
      {"fixnorm", {}, "eps", "1", {"y", "dx"}, &kLow},
      {"fixnorm", {}, "length", "sqrt_channels", {"y", "dx"}},
      {"groupnorm", {{"groups", "4"}}, "groups", "2", {"y", "dx", "dweight"}},
      // dbias is a sum of the same terms in another order.
      {"groupnorm", {{"groups", "4"}}, "axes", "token", {"y", "dx", "dweight", "dbias"}},
      {"groupnorm", {{"groups", "4"}}, "eps", "1e-3", {"y", "dx", "dweight"}},
      {"instancenorm", {}, "eps", "1e-3", {"y", "dx"}},
      {"instancenorm", {}, "affine", "1", {"y", "dx", "dweight", "dbias"}},
      {"dyt", {}, "alpha", "1", {"y", "dx", "dalpha", "dweight"}},
      {"dyt", {{"sublayer", "attention"}}, "attention_alpha", "1", {"y", "dx", "dalpha", "dweight"}},
      {"dyt", {{"attention_alpha", "1"}}, "sublayer", "attention", {"y", "dx", "dalpha", "dweight"}},
      {"dyt", {}, "bias", "0", {"y", "dbias"}},
      {"derf", {{"sublayer", "attention"}}, "attention_alpha", "1", {"y", "dx", "dalpha", "dshift", "dweight"}},
      {"derf", {{"attention_alpha", "1"}}, "sublayer", "attention", {"y", "dx", "dalpha", "dshift", "dweight"}},
      {"derf", {}, "bias", "0", {"y", "dbias"}},
      {"derf", {}, "alpha", "1", {"y", "dx", "dalpha", "dshift", "dweight"}},
      {"derf", {}, "shift", "1", {"y", "dx", "dalpha", "dshift", "dweight"}},
  };
}

std::vector<Row> rows() {
  std::vector<Row> all = un_rows();
  for (const auto& more : {other_channel_rows(), other_rows()}) all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(NormalizerEffects, OptionsChangeWhatTheySayAndNothingElse) {
  for (const Row& row : rows()) {
    std::string label = row.normalizer + ":";
    for (const auto& [name, value] : row.base) label += " " + name + " = " + value;
    SCOPED_TRACE(label + ", with " + row.option + " = " + row.value);
    Options changed = row.base;
    changed[row.option] = row.value;
    auto a = step(row.normalizer, row.base, *row.scene), b = step(row.normalizer, changed, *row.scene);
    Names names, differ;
    for (const auto* results : {&a, &b})
      for (const auto& [name, tensor] : *results) names.insert(name);
    for (const std::string& name : names) {
      if (a.count(name) && b.count(name) && identical(a[name], b[name])) continue;
      differ.insert(name);
      if (row.channel0_alone) {
        EXPECT_FALSE(differ_behind_channel0(a[name], b[name])) << name;
      }
    }
    EXPECT_EQ(differ, row.changes);
  }
}

// The table has a row for every option, with a value that changes a result.
TEST(NormalizerEffects, EveryOptionHasARow) {
  std::set<std::pair<std::string, std::string>> covered;
  for (const Row& row : rows())
    if (!row.changes.empty()) covered.emplace(row.normalizer, row.option);
  for (const NormalizerInfo& info : normalizers())
    for (const NormalizerOption& option : info.options)
      EXPECT_TRUE(covered.count({info.name, option.name})) << info.name << ", " << option.name;
}

}  // namespace
}  // namespace foldgrad::testing
