// Every normalizer as nodes: the offline ones as their affine map, the others as what they compute.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/onnx/layers.h"

namespace foldgrad {
namespace {

const std::int64_t kLast = -1;

class NormalizerNodes {
 public:
  NormalizerNodes(OnnxGraph& g, Normalizer& norm) : g_(g), norm_(norm), kind_(norm.info().name) {}

  std::string operator()(const std::string& x) {
    g_.at(norm_.site());
    if (const auto form = norm_.affine(); form && norm_.info().offline())
      return affine(norm_.info().inference == Inference::linear ? centered(x) : x, form->A, form->B);
    if (kind_ == "ln" || kind_ == "deepnorm") return layer_norm(x);
    if (kind_ == "rmsnorm") return affine(root_mean_square(x), parameter("weight"), parameter("bias"));
    if (kind_ == "scalenorm") return g_.node("Mul", {unit_rows(x), weight("scale", parameter("scale"))});
    if (kind_ == "fixnorm") return fixed_length(x);
    if (kind_ == "groupnorm") return group_norm(x);
    if (kind_ == "pn") return power_norm(x);
    if (kind_ == "dyt" || kind_ == "derf") return function(x);
    throw std::invalid_argument(fmt::format(
        "onnx: {} ({}) is not known as nodes of ONNX: it must be offline, with an affine map, or one of the "
        "library's own",
        norm_.site(), kind_));
  }

 private:
  // As it was trained, or what stands for it where there is none.
  Tensor parameter(const std::string& name) const {
    for (const Parameter* p : norm_.parameters())
      if (p->name == norm_.site() + "." + name) return p->value;
    return Tensor::full({norm_.channels()}, name == "weight" ? 1 : 0, DType::f32);
  }
  std::string weight(const std::string& name, const Tensor& value) {
    return g_.initializer(norm_.site() + "." + name, value.to(DType::f32));
  }
  std::string eps() { return g_.number(norm_.options().number("eps")); }
  std::string mean(const std::string& x) { return reduce("ReduceMean", x); }
  std::string reduce(const char* op, const std::string& x) {
    return g_.node(op, {x}, {{"axes", std::vector<std::int64_t>{kLast}}, {"keepdims", std::int64_t(1)}});
  }

  // Factors that are all 1 and terms that are all 0 leave no node.
  std::string affine(std::string x, const Tensor& A, const Tensor& B) {
    const auto is = [](const Tensor& t, double value) {
      const std::vector<double> all = t.to(DType::f64).values<double>();
      return std::all_of(all.begin(), all.end(), [value](double v) { return v == value; });
    };
    if (!is(A, 1)) x = g_.node("Mul", {x, weight("A", A)});
    if (!is(B, 0)) x = g_.node("Add", {x, weight("B", B)});
    return x;
  }

  std::string centered(const std::string& x) { return g_.node("Sub", {x, mean(x)}); }

  std::string layer_norm(const std::string& x) {
    return g_.node("LayerNormalization", {x, weight("weight", parameter("weight")), weight("bias", parameter("bias"))},
                   {{"axis", kLast}, {"epsilon", norm_.options().number("eps")}});
  }

  // [RMS-1], [RMS-5]; the mean is over the first channels where it is partial.
  std::string root_mean_square(const std::string& x) {
    const auto channels = std::int64_t(norm_.options().number("partial") * double(norm_.channels()));
    const std::string part =
        channels == norm_.channels()
            ? x
            : g_.node("Slice", {x, g_.integers({0}), g_.integers({channels}), g_.integers({kLast})});
    const std::string square = mean(g_.node("Mul", {part, part}));
    const bool outside = norm_.options().text("eps_place") == "outside";
    const std::string length = outside ? g_.node("Add", {g_.node("Sqrt", {square}), eps()})
                                       : g_.node("Sqrt", {g_.node("Add", {square, eps()})});
    return g_.node("Div", {x, length});
  }

  std::string unit_rows(const std::string& x) {  // [FN-1]
    return g_.node("Div", {x, g_.node("Max", {reduce("ReduceL2", x), eps()})});
  }

  std::string fixed_length(const std::string& x) {
    const std::string y = unit_rows(x);
    if (norm_.options().text("length") == "one") return y;
    return g_.node("Mul", {y, g_.number(std::sqrt(double(norm_.channels())))});
  }

  // body(x seen as [batch, length, groups, channels of each])
  template <class Body>
  std::string in_groups(const std::string& x, std::int64_t groups, const Body& body) {
    const std::string y = body(g_.node("Reshape", {x, g_.integers({0, 0, groups, norm_.channels() / groups})}));
    return g_.node("Reshape", {y, g_.integers({0, 0, norm_.channels()})});
  }

  std::string group_norm(const std::string& x) {
    const std::int64_t groups = norm_.options().integer("groups"), size = norm_.channels() / groups;
    const std::string y = in_groups(x, groups, [&](const std::string& grouped) {
      return g_.node("LayerNormalization", {grouped, weight("ones", Tensor::full({size}, 1, DType::f32))},
                     {{"axis", kLast}, {"epsilon", norm_.options().number("eps")}});
    });
    return affine(y, parameter("weight"), parameter("bias"));
  }

  // [PN-4], then the map of pn_star [CN-4].
  std::string power_norm(const std::string& x) {
    const std::string y = in_groups(x, norm_.options().integer("groups"), [&](const std::string& in) {
      const std::string square = g_.node("Add", {mean(g_.node("Mul", {in, in})), eps()});
      return g_.node("Div", {in, g_.node("Sqrt", {square})});
    });
    const auto state = norm_.state();
    const auto phi = state.find("phi");
    const std::vector<double> variance =
        (phi == state.end() ? state.at("run_var") : phi->second).to(DType::f64).values<double>();
    const Tensor A = parameter("weight").to(DType::f64).clone();
    for (std::int64_t c = 0; c < A.size(); ++c)
      A.data<double>()[c] /= std::sqrt(variance[std::size_t(c)] + norm_.options().number("eps"));
    return affine(y, A, parameter("bias"));
  }

  std::string function(const std::string& x) {  // [DYT-1], [DERF-1]
    std::string u = g_.node("Mul", {x, weight("alpha", parameter("alpha"))});
    if (kind_ == "derf") u = g_.node("Add", {u, weight("shift", parameter("shift"))});
    return affine(g_.node(kind_ == "derf" ? "Erf" : "Tanh", {u}), parameter("weight"), parameter("bias"));
  }

  OnnxGraph& g_;
  Normalizer& norm_;
  const std::string& kind_;
};

}  // namespace

std::string onnx_normalizer(OnnxGraph& g, Normalizer* norm, const std::string& x) {
  if (!norm) return x;
  return NormalizerNodes(g, *norm)(x);
}

}  // namespace foldgrad
