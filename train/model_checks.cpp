#include "train/model_checks.h"

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "models/decoding.h"
#include "models/fold_transformer.h"

namespace foldgrad {
namespace {

using Outcome = CheckResult::Outcome;

CheckResult bounded(std::string name, const char* what, double value, double bound) {
  // NaN fails.
  return {std::move(name), value <= bound ? Outcome::passed : Outcome::failed,
          fmt::format("{} {:.2g}, at most {:.0e}", what, value, bound)};
}

std::unique_ptr<Transformer> in_f64(Transformer& model) {
  auto exact = std::make_unique<Transformer>(model.config(), /*seed=*/0, DType::f64);
  exact->copy_from(model);
  return exact;
}

CheckResult check_finite(Transformer& exact) {
  const auto finite = [](const Tensor& t) {
    if (!is_floating(t.dtype())) return true;
    for (double v : t.to(DType::f64).values<double>())
      if (!std::isfinite(v)) return false;
    return true;
  };
  constexpr const char* kName = "all numbers are finite";
  for (const Parameter* p : exact.parameters())
    if (!finite(p->value)) return {kName, Outcome::failed, p->name + " is not"};
  const auto state = exact.state();
  for (const auto& [name, tensor] : state)
    if (!finite(tensor)) return {kName, Outcome::failed, name + " is not"};
  return {kName, Outcome::passed,
          fmt::format("{} parameters, {} buffers of normalizers", exact.parameter_count(), state.size())};
}

// Rows and columns of a batch, then two columns of padding behind.
TranslationBatch part(const TranslationBatch& batch, std::int64_t row, std::int64_t extra, std::int64_t pad) {
  const auto cut = [&](const Tensor& t, double filler) {
    const std::int64_t columns = t.shape()[1], rows = row < 0 ? t.shape()[0] : 1;
    const Tensor wide = Tensor::full({rows, columns + extra}, filler, t.dtype());
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c) {
        const std::int64_t from = (row < 0 ? r : row) * columns + c, to = r * (columns + extra) + c;
        if (t.dtype() == DType::u8)
          wide.data<std::uint8_t>()[to] = t.data<std::uint8_t>()[from];
        else
          wide.data<std::int64_t>()[to] = t.data<std::int64_t>()[from];
      }
    return wide;
  };
  return {cut(batch.source, double(pad)), cut(batch.source_mask, 0), cut(batch.input, double(pad)),
          cut(batch.input_mask, 0), cut(batch.target, double(pad))};
}

// The first columns of the row of logits.
Tensor row_of(const Tensor& logits, std::int64_t row, std::int64_t columns) {
  return logits.slice(row, row + 1).reshape({logits.shape()[1], logits.shape()[2]}).slice(0, columns);
}

void check_padding(Transformer& exact, const Probe& probe, std::vector<CheckResult>& results) {
  constexpr const char *kPadding = "padding changes nothing", *kOthers = "other sentences of the batch change nothing";
  const TransformerConfig& config = exact.config();
  const Tensor logits = inference_logits(exact, probe.batch, DType::f64);
  const std::int64_t rows = logits.shape()[0], columns = logits.shape()[1];
  double scale = 0, padding = 0, others = 0;
  for (double v : logits.values<double>()) scale = std::max(scale, std::abs(v));
  const std::int64_t room = std::max(probe.batch.source.shape()[1], columns) + 2;
  if (room <= config.max_positions) {
    const Tensor wide = inference_logits(exact, part(probe.batch, -1, 2, config.pad), DType::f64);
    for (std::int64_t r = 0; r < rows; ++r)
      padding = std::max(padding, difference(row_of(wide, r, columns), row_of(logits, r, columns)).absolute);
    results.push_back(bounded(kPadding, "relative difference", padding / scale, 1e-11));
  } else {
    results.push_back({kPadding, Outcome::skipped, "max_positions leaves no room for it"});
  }
  for (std::int64_t r = 0; r < std::min<std::int64_t>(rows, 4); ++r) {
    const Tensor alone = inference_logits(exact, part(probe.batch, r, 0, config.pad), DType::f64);
    others = std::max(others, difference(row_of(alone, 0, columns), row_of(logits, r, columns)).absolute);
  }
  results.push_back(bounded(kOthers, "relative difference", others / scale, 1e-11));
}

double loss_of(Transformer& exact, const TranslationBatch& batch) {
  Tape tape(/*recording=*/false);
  return exact.loss(batch, {.tape = tape, .dtype = DType::f64}, 0.1).value().item();
}

// 24 elements of parameters drawn at random, against (L(x + h) - L(x - h)) / 2h. Where a difference crosses a kink of
// relu a smaller h does not, so the best of three counts.
CheckResult check_gradients(Transformer& exact, const TranslationBatch& batch) {
  Tape tape;
  for (Parameter* p : exact.parameters()) p->zero_grad();
  tape.backward(exact.loss(batch, {.tape = tape, .dtype = DType::f64}, 0.1));
  const std::vector<Parameter*> parameters = exact.parameters();
  std::mt19937_64 random(1);
  double worst = 0;
  std::string where;
  for (int k = 0; k < 24; ++k) {
    Parameter& p = *parameters[random() % parameters.size()];
    const auto i = std::int64_t(random() % std::uint64_t(p.value.size()));
    double& x = p.value.data<double>()[i];
    const double x0 = x, gradient = p.has_grad ? p.grad.data<double>()[i] : 0;
    double best = INFINITY;
    for (double h : {1e-5, 1e-6, 1e-7}) {
      const double step = h * std::max(1.0, std::abs(x0));
      x = x0 + step;
      const double above = loss_of(exact, batch);
      x = x0 - step;
      const double below = loss_of(exact, batch);
      x = x0;
      best = std::min(best, std::abs((above - below) / (2 * step) - gradient) / (1 + std::abs(gradient)));
    }
    if (!(best <= worst)) worst = best, where = fmt::format("{}[{}]", p.name, i);
  }
  CheckResult result = bounded("gradients at inference are differences of the loss", "off by", worst, 1e-5);
  result.measured += ", worst at " + where;
  return result;
}

// [UN-18]: V_u(sqrt a) <= AM(a) - GM(a) <= M V_b(sqrt a) for the M entries of each channel's window.
CheckResult check_windows(Transformer& exact) {
  constexpr const char* kName = "Eq. 18 holds for every window of statistics";
  std::int64_t windows = 0, broken = 0;
  for (const auto& [name, tensor] : exact.state()) {
    if (name.size() < 7 || name.compare(name.size() - 7, 7, ".win_sq") != 0) continue;
    const std::int64_t M = tensor.shape()[0], C = tensor.shape()[1];
    for (std::int64_t c = 0; c < C; ++c) {
      double sum = 0, logs = 0, roots = 0, least = INFINITY;
      for (std::int64_t m = 0; m < M; ++m) {
        const double a = tensor.data<double>()[m * C + c];
        sum += a, logs += std::log(a), roots += std::sqrt(a), least = std::min(least, a);
      }
      if (!(least > 0)) continue;  // not full yet
      ++windows;
      double squares = 0;
      for (std::int64_t m = 0; m < M; ++m)
        squares += std::pow(std::sqrt(tensor.data<double>()[m * C + c]) - roots / double(M), 2);
      const double d = sum / double(M) - std::exp(logs / double(M)), rounding = 1e-12 * sum;
      const bool holds =
          d <= squares * (1 + 1e-9) + rounding && (M == 1 || squares / double(M - 1) <= d * (1 + 1e-9) + rounding);
      broken += !holds;
    }
  }
  if (windows == 0) return {kName, Outcome::skipped, "the model has no full window"};
  return {kName, broken ? Outcome::failed : Outcome::passed,
          fmt::format("{} of {} windows", windows - broken, windows)};
}

CheckResult check_translations(Transformer& model, Transformer& folded, const TranslationBatch& batch) {
  constexpr const char* kName = "greedy translations of the folded model are the same";
  const DecodingOptions greedy{.beam = 1};
  const auto want = beam_search(model, batch.source, batch.source_mask, greedy),
             got = beam_search(folded, batch.source, batch.source_mask, greedy);
  std::size_t same = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    same += want[i].empty() == got[i].empty() && (want[i].empty() || want[i][0].ids == got[i][0].ids);
  return {kName, same == want.size() ? Outcome::passed : Outcome::failed, fmt::format("{} of {}", same, want.size())};
}

// Those over the tokens of a sentence are not known token by token.
bool decodes(Transformer& model) {
  for (const Normalizer* norm : model.normalizers())
    if (norm->info().name == "instancenorm" ||
        (norm->info().name == "groupnorm" && norm->options().text("axes") == "sample"))
      return false;
  return true;
}

}  // namespace

std::vector<CheckResult> check_model(Transformer& model, const FoldOptions& options, const Probe& probe) {
  std::vector<CheckResult> results;
  const std::unique_ptr<Transformer> exact = in_f64(model);
  results.push_back(check_finite(*exact));
  if (results[0].outcome == Outcome::failed) return results;

  const FoldedTransformer exact_folded = fold(*exact, options), folded = fold(model, options);
  const auto compare = [&](const char* name, Transformer& got, Transformer& want, DType dtype, double bound) {
    const Difference d =
        difference(inference_logits(got, probe.batch, dtype), inference_logits(want, probe.batch, dtype));
    results.push_back(bounded(name, "relative difference", d.relative, bound));
  };
  compare("folded = unfolded, f64", *exact_folded.model, *exact, DType::f64, 1e-11);
  compare("folded = unfolded, f32", *folded.model, model, DType::f32, 1e-5);
  if (decodes(model))
    results.push_back(check_translations(*exact, *exact_folded.model, probe.batch));
  else
    results.push_back({"greedy translations of the folded model are the same", Outcome::skipped,
                       "statistics over a sentence are not known token by token"});
  check_padding(*exact, probe, results);
  results.push_back(check_gradients(*exact, probe.batch));
  results.push_back(check_windows(*exact));
  return results;
}

}  // namespace foldgrad
