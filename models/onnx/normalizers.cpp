// Writes the inference form of every normalizer, y = A u + B, as nodes.
#include <fmt/format.h>

#include "models/onnx/recording.h"

namespace foldgrad {
namespace {

const std::int64_t kLast = -1;

class NormalizerNodes {
 public:
  NormalizerNodes(OnnxGraph& g, const Normalizer& norm) : g_(g), norm_(norm) {}

  std::string operator()(const std::string& x) {
    g_.at(norm_.site());
    const std::optional<InferenceForm> form = norm_.inference();
    if (!form)
      throw std::invalid_argument(
          fmt::format("onnx: {} ({}) cannot be expressed in ONNX: the normalizer must have an affine map at inference, "
                      "or be one of the library's own",
                      norm_.site(), norm_.info().name));
    const auto* groups = std::get_if<InferenceForm::Groups>(&form->instead);
    if (groups && groups->count == 1 && groups->centered)
      return layer_norm(x, groups->eps, {weight("weight", form->map.A), weight("bias", form->map.B)});
    if (form->map.centered) return affine(g_.node("Sub", {x, mean(x)}), form->map);
    return affine(std::visit([&](const auto& other) { return u(x, other); }, form->instead), form->map);
  }

 private:
  std::string weight(const std::string& name, const std::vector<double>& values) {
    const Tensor exact = Tensor::of({std::int64_t(values.size())}, values);
    return g_.initializer(norm_.site() + "." + name, exact.to(DType::f32));
  }
  std::string mean(const std::string& x) { return reduce("ReduceMean", x); }
  std::string reduce(const char* op, const std::string& x) {
    return g_.node(op, {x}, {{"axes", std::vector<std::int64_t>{kLast}}, {"keepdims", std::int64_t(1)}});
  }

  // Adds no factor node if all of A is 1, and no bias node if all of B is 0.
  std::string affine(std::string x, AffineMap map) {
    map.centered = false;
    if (map.scales()) x = g_.node("Mul", {x, weight("A", map.A)});
    if (map.adds()) x = g_.node("Add", {x, weight("B", map.B)});
    return x;
  }

  // Adds a layer normalization. `weights` are the gain and, optionally, the bias.
  std::string layer_norm(const std::string& x, double eps, std::vector<std::string> weights) {
    weights.insert(weights.begin(), x);
    return g_.node("LayerNormalization", weights, {{"axis", kLast}, {"epsilon", eps}});
  }

  // [RMS-1], [RMS-5]
  std::string root_mean_square(const std::string& x, const RmsNormOptions& rms) {
    const std::string part =
        rms.channels == 0 || rms.channels == norm_.channels()
            ? x
            : g_.node("Slice", {x, g_.integers({0}), g_.integers({rms.channels}), g_.integers({kLast})});
    const std::string square = mean(g_.node("Mul", {part, part})), eps = g_.number(rms.eps);
    const std::string length = rms.eps_outside ? g_.node("Add", {g_.node("Sqrt", {square}), eps})
                                               : g_.node("Sqrt", {g_.node("Add", {square, eps})});
    return g_.node("Div", {x, length});
  }

  std::string u(const std::string& x, std::monostate) { return x; }
  std::string u(const std::string& x, const RmsNormOptions& rms) { return root_mean_square(x, rms); }

  std::string u(const std::string& x, const InferenceForm::Groups& groups) {  // [PN-4] unless centred
    if (groups.count == 1) return root_mean_square(x, {.eps = groups.eps});
    const std::int64_t size = norm_.channels() / groups.count;
    const std::string grouped = g_.reshape(x, {groups.count, size});
    const std::string y = groups.centered
                              ? layer_norm(grouped, groups.eps, {weight("ones", std::vector<double>(size, 1))})
                              : root_mean_square(grouped, {.eps = groups.eps});
    return g_.node("Reshape", {y, g_.node("Shape", {x})});
  }

  std::string u(const std::string& x, const InferenceForm::UnitLength& unit) {  // [FN-1]
    return g_.node("Div", {x, g_.node("Max", {reduce("ReduceL2", x), g_.number(unit.eps)})});
  }

  std::string u(const std::string& x, const InferenceForm::Elementwise& e) {  // [DYT-1], [DERF-1]
    const std::string scaled = g_.node("Mul", {x, weight("alpha", {e.alpha})});
    if (e.function == InferenceForm::Elementwise::Function::tanh) return g_.node("Tanh", {scaled});
    return g_.node("Erf", {g_.node("Add", {scaled, weight("shift", {e.shift})})});
  }

  OnnxGraph& g_;
  const Normalizer& norm_;
};

}  // namespace

std::string onnx_normalizer(OnnxGraph& g, const Normalizer& norm, const std::string& x) {
  return NormalizerNodes(g, norm)(x);
}

}  // namespace foldgrad
