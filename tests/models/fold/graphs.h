// Small hand-built graphs that run both unfolded and folded.
#pragma once
#include <deque>
#include <functional>

#include "models/fold/model.h"
#include "ops/affine/affine.h"
#include "ops/center_norm/center_norm.h"
#include "ops/linear/linear.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {

// One run of a graph, unfolded or folded. Parameters get random values on first use; normalizers are affine maps with
// random A and B unless another kind is named. In a folded graph, each normalizer is replaced by the map that remains
// of it, if any.
class GraphBuilder {
 public:
  Tape tape;
  bool training = false;

  explicit GraphBuilder(const FoldedGraph* folded = nullptr) : folded_(folded) {
    if (folded) values_ = folded->parameters;
  }

  Var input(Shape shape) { return tape.variable(randn(shape, 99)); }
  bool has(const std::string& name) const { return values_.count(name) > 0; }
  Var parameter(const std::string& name, Shape shape) {
    for (Parameter& p : parameters_)
      if (p.name == name) return tape.parameter(p);
    Tensor& value = values_[name];
    if (!value.defined()) value = randn(shape, unsigned(std::hash<std::string>()(name)), 0.5);
    parameters_.push_back({name, value});
    return tape.parameter(parameters_.back());
  }

  Var norm(const Var& x, const std::string& site = "norm", const std::string& kind = "affine", bool zero_bias = false) {
    if (folded_) {
      const auto left = folded_->sites.find(site);
      return left == folded_->sites.end() ? x : mapped(x, left->second);
    }
    for (const auto& known : norms_)
      if (known->site() == site) return known->apply(x, {.training = training});
    norms_.push_back(make_normalizer(kind, {}, site, x.shape()[-1], DType::f64));
    Normalizer& norm = *norms_.back();
    for (Parameter* p : norm.parameters()) {
      p->value = randn(p->value.shape(), unsigned(std::hash<std::string>()(p->name)));
      if (zero_bias && p->name == site + ".bias") p->value.zero();
      values_[p->name] = p->value;
    }
    return norm.apply(x, {.training = training});
  }
  // Calls add(x) in the scope "sum". In a folded graph, first applies to the stream x the map that remains at this sum,
  // if any.
  Var sum(const Var& x, const std::function<Var(const Var& stream)>& add) {
    const Var stream = folded_ && folded_->residuals.count("sum") ? mapped(x, folded_->residuals.at("sum")) : x;
    const Tape::Scope inside(tape, "sum");
    return add(stream);
  }
  // Applies NAME.weight, and NAME.bias if `bias` is true or folding has created it. A copy at SCOPE.weight takes
  // precedence over NAME.weight.
  Var linear(const Var& x, const std::string& name, std::int64_t out, bool bias = true, const std::string& scope = "") {
    const Tape::Scope inside(tape, scope.empty() ? name : scope);
    const bool copied = !scope.empty() && has(scope + ".weight");
    const Var W = parameter((copied ? scope : name) + ".weight", {out, x.shape()[-1]});
    for (const std::string& place : {scope, name})
      if (!place.empty() && (has(place + ".bias") || (bias && place == name)))
        return foldgrad::linear(x, W, parameter(place + ".bias", {out}));
    return foldgrad::linear(x, W);
  }

  FoldedGraph folded(const std::vector<Var>& results, const FoldOptions& options = {}) const {
    std::vector<std::string> names;
    std::vector<FoldSite> sites;
    for (const auto& norm : norms_) {
      names.push_back(norm->site());
      sites.push_back(fold_site(*norm, DType::f64, Device::cpu));
    }
    return fold(graph_of(tape, results, names), sites, values_, options);
  }

 private:
  Var mapped(const Var& x, const AffineMap& map) {
    const std::int64_t C = map.channels();
    std::vector<double> A = map.A;
    if (map.centered)
      for (double& a : A) a *= double(C - 1) / double(C);
    const Var a = tape.constant(Tensor::of({C}, A)), b = tape.constant(Tensor::of({C}, map.B));
    return map.centered ? center_norm(x, a, b) : affine(x, a, b);
  }

  const FoldedGraph* folded_;
  NamedTensors values_;
  std::deque<Parameter> parameters_;
  std::vector<std::unique_ptr<Normalizer>> norms_;
};

using BuildGraph = std::function<std::vector<Var>(GraphBuilder&)>;

// Folds the graph and returns the folded one. Checks that both give the same results.
inline FoldedGraph fold_and_compare(const BuildGraph& build, const FoldOptions& options = {}) {
  GraphBuilder before;
  const std::vector<Var> want = build(before);
  const FoldedGraph folded = before.folded(want, options);
  GraphBuilder after(&folded);
  const std::vector<Var> got = build(after);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(close(got[i].value(), want[i].value(), 1e-12));
  return folded;
}

using Vars = std::vector<Var>;

// Folds `site`, whose normalizer is `norm`, in a graph with the given weights. Tests compare the folded parameters with
// values computed by hand.
inline FoldedGraph fold_by_hand(const Var& result, Normalizer& norm, const FoldSite& site,
                                const std::vector<Parameter*>& weights) {
  NamedTensors values;
  for (const auto& parameters : {weights, norm.parameters()})
    for (const Parameter* p : parameters) values[p->name] = p->value;
  return fold(graph_of(result.tape(), {result}, {site.name}), {site}, values);
}

// Returns "folded" if the site folded, otherwise the first edge that kept the site from folding, and the reason. Checks
// that folding changes no result.
inline std::string refusal(const BuildGraph& build, const FoldOptions& options = {}, const std::string& site = "norm") {
  const FoldedGraph folded = fold_and_compare(build, options);
  for (const SiteReport& r : folded.reports) {
    if (r.site != site) continue;
    if (r.outcome == SiteReport::Outcome::folded) return "folded";
    EXPECT_FALSE(r.kept.empty());
    return r.kept.empty() ? "" : r.kept[0].edge + ": " + r.kept[0].reason;
  }
  return "no such site";
}

// A graph that does not fold, and the reason.
struct Refusal {
  const char* name;
  BuildGraph build;
  const char* reason;  // begins with the edge
  FoldOptions options = {};
  const char* site = "norm";
};

inline Var x3(GraphBuilder& g) { return g.input({2, 3, 4}); }

}  // namespace foldgrad::testing
