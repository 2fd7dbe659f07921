// op_bits IN OUT computes the operations of foldgrad_bits_test.py. From the safetensors file IN it reads the operands
// CASE.0, CASE.1, ... and the gradient CASE.dy of each case. To OUT it writes the result CASE.y and the gradients
// CASE.d0, CASE.d1, ...
#include <fmt/format.h>

#include <functional>
#include <map>

#include "engine/files/safetensors.h"
#include "ops/activation/activation.h"
#include "ops/affine/affine.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/attention/attention.h"
#include "ops/cast/cast.h"
#include "ops/center_norm/center_norm.h"
#include "ops/concat/concat.h"
#include "ops/conv2d/conv2d.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/divide_rows/divide_rows.h"
#include "ops/dropout/dropout.h"
#include "ops/dyt/dyt.h"
#include "ops/embedding/embedding.h"
#include "ops/flip/flip.h"
#include "ops/gate/gate.h"
#include "ops/group_norm/group_norm.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/linear/linear.h"
#include "ops/matmul/matmul.h"
#include "ops/max_pool2d/max_pool2d.h"
#include "ops/permute/permute.h"
#include "ops/positions/positions.h"
#include "ops/power_norm/power_norm.h"
#include "ops/reduce/reduce.h"
#include "ops/reindex/reindex.h"
#include "ops/reshape/reshape.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rotary/rotary.h"
#include "ops/scale_norm/scale_norm.h"
#include "ops/softmax/softmax.h"
#include "ops/weight_standardize/weight_standardize.h"
#include "ops/weighted_pool/weighted_pool.h"

namespace {

using namespace foldgrad;
using Operands = const std::vector<Var>&;
using Call = std::function<Var(Operands)>;

const Segments kRows(std::vector<std::int64_t>{3, 1});
const Random kRandom{.seed = 5, .stream = 6, .step = 7};
const std::vector<int> kSwapped{1, 0};

const std::map<std::string, Call> kCalls = {
    {"linear", [](Operands v) { return linear(v[0], v[1], v[2]); }},
    {"matmul", [](Operands v) { return matmul(v[0], v[1], false, true); }},
    {"embedding", [](Operands v) { return embedding(v[0], v[1], 1.5, 2); }},
    {"gather", [](Operands v) { return gather(v[0], v[1]); }},
    {"add", [](Operands v) { return add(v[0], v[1]); }},
    {"sub", [](Operands v) { return sub(v[0], v[1]); }},
    {"mul", [](Operands v) { return mul(v[0], v[1]); }},
    {"scale", [](Operands v) { return scale(v[0], 0.3); }},
    {"add_bias", [](Operands v) { return add_bias(v[0], v[1]); }},
    {"layer_norm", [](Operands v) { return layer_norm(v[0], v[1], v[2], 1e-3); }},
    {"rms_norm",
     [](Operands v) { return rms_norm(v[0], v[1], RmsNormOptions{.eps = 1e-3, .eps_outside = true, .channels = 4}); }},
    {"scale_norm", [](Operands v) { return scale_norm(v[0], v[1], 1e-3); }},
    {"unit_rows", [](Operands v) { return unit_rows(v[0], 1e-3); }},
    {"group_norm", [](Operands v) { return group_norm(v[0], v[1], v[2], 2, &kRows, 1e-3); }},
    {"center_norm", [](Operands v) { return center_norm(v[0], v[1], v[2]); }},
    {"dyt", [](Operands v) { return dyt(v[0], v[1], v[2], v[3]); }},
    {"derf", [](Operands v) { return derf(v[0], v[1], v[2], v[3], v[4]); }},
    {"affine", [](Operands v) { return affine(v[0], v[1], v[2]); }},
    {"scale_by", [](Operands v) { return scale_by(v[0], v[1]); }},
    {"group_rms", [](Operands v) { return group_rms(v[0], 2, 1e-3); }},
    {"sinusoidal_positions",
     [](Operands v) { return sinusoidal_positions(v[0], kRows.places(), sinusoidal_table(9, 6, v[0].dtype())); }},
    {"rotary",
     [](Operands v) {
       return rotary(v[0], Tensor::of<std::int64_t>({4}, {0, 1, 2, 0}), RotaryTable(3, 2, 100, v[0].dtype()), 4);
     }},
    {"learned_positions", [](Operands v) { return learned_positions(v[0], v[1]); }},
    {"activate", [](Operands v) { return activate(v[0], Activation::softplus); }},
    {"bias_activation", [](Operands v) { return bias_activation(v[0], v[1], Activation::gelu); }},
    {"bias_activation_dropout",
     [](Operands v) { return bias_activation_dropout(v[0], v[1], Activation::silu, 0.4, kRandom); }},
    {"attention",
     [](Operands v) {
       return attention(v[0], v[1], v[2], {.heads = 2, .scale = 0.7, .causal = true, .dropout = 0.3, .random = kRandom},
                        kRows, kRows);
     }},
    {"attention_packed",
     [](Operands v) {
       return attention_packed(v[0], v[1], {.heads = 1, .scale = 0.7}, Segments(std::vector<std::int64_t>{2, 2}));
     }},
    {"softmax", [](Operands v) { return softmax(v[0]); }},
    {"divide_rows", [](Operands v) { return divide_rows(v[0], v[1], 0.3); }},
    {"dropout", [](Operands v) { return dropout(v[0], 0.4, kRandom); }},
    {"bias_dropout_residual",
     [](Operands v) {
       return bias_dropout_residual(v[0], v[1], v[2], 0.4, kRandom, {.p = 0.5, .random = {5, 8, 7}, .rows = 2});
     }},
    {"permute", [](Operands v) { return permute(v[0], kSwapped); }},
    {"flip", [](Operands v) { return flip(v[0], 1); }},
    {"reindex",
     [](Operands v) {
       return reindex(v[0], RowOrder({1, 0}));
     }},
    {"reshape",
     [](Operands v) {
       return reshape(v[0], {2, -1});
     }},
    {"concat", [](Operands v) { return concat(v, 1); }},
    {"slice", [](Operands v) { return slice(v[0], 1, 2, 5); }},
    {"cast", [](Operands v) { return cast(v[0], DType::f64); }},
    {"cross_entropy",
     [](Operands v) {
       return cross_entropy(v[0], v[1], {.label_smoothing = 0.1, .ignore_index = 2, .reduction = Reduction::sum});
     }},
    {"unfold", [](Operands v) { return unfold(v[0], 2, 3, {.stride = 2, .padding = 1}); }},
    {"conv2d_channels_last",
     [](Operands v) {
       return conv2d_channels_last(v[0], v[1], v[2], {.stride = 2, .padding = 1, .activation = Activation::relu});
     }},
    {"patch_embedding", [](Operands v) { return patch_embedding(v[0], v[1], v[2]); }},
    {"max_pool2d", [](Operands v) { return max_pool2d(v[0], {.kernel = 3, .stride = 2, .padding = 1}); }},
    {"sum", [](Operands v) { return sum(v[0]); }},
    {"mean", [](Operands v) { return mean(v[0]); }},
    {"mean_pool", [](Operands v) { return mean_pool(v[0]); }},
    {"weighted_pool", [](Operands v) { return weighted_pool(v[0], v[1]); }},
    {"gate", [](Operands v) { return gate(v[0], v[1]); }},
    {"weight_standardize",
     [](Operands v) { return weight_standardize(v[0], v[1], {.minimum = 1e-3, .unbiased = true}); }},
    // The example normalizer of docs/library.md. The test defines it in Python.
    {"bounded",
     [](Operands v) {
       const Var one = v[0].tape().constant(Tensor::full(v[1].shape(), 1, v[0].dtype()));
       return affine(v[0], add(tanh(v[1]), one), v[2]);
     }},
};

NamedTensors results(const std::string& name, const Call& call, const NamedTensors& given) {
  Tape tape;
  std::vector<Var> operands;
  for (int k = 0; given.count(fmt::format("{}.{}", name, k)); ++k) {
    const Tensor& t = given.at(fmt::format("{}.{}", name, k));
    operands.push_back(is_floating(t.dtype()) ? tape.variable(t) : tape.constant(t));
  }
  const Var y = call(operands);
  tape.backward(y, given.at(name + ".dy"));
  NamedTensors all{{name + ".y", y.value()}};
  for (std::size_t k = 0; k < operands.size(); ++k)
    if (is_floating(operands[k].dtype())) all[fmt::format("{}.d{}", name, k)] = tape.grad(operands[k]);
  return all;
}

}  // namespace

int main(int, char** argv) {
  const NamedTensors given = read_safetensors(argv[1]).tensors;
  NamedTensors all;
  for (const auto& [name, call] : kCalls) all.merge(results(name, call, given));
  write_safetensors(argv[2], all);
}
