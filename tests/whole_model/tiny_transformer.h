// A small encoder-decoder Transformer, pre-norm with tied embeddings, put together from operations alone: the proof
// that they fit together. The models that people train are in models/.
#pragma once
#include <cmath>
#include <map>
#include <memory>

#include "ops/activation/activation.h"
#include "ops/attention/attention.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/linear/linear.h"
#include "ops/positions/positions.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {

constexpr std::int64_t kVocabulary = 11, kWidth = 8, kHidden = 16, kPad = 1;
constexpr int kLayers = 2, kHeads = 2;

// Ids [N] of sentences, and their lengths; all on the device of the model.
struct Batch {
  Tensor source;
  Segments sources;
  Tensor input, target;
  Segments inputs;  // of both
};
inline Batch tiny_batch(Device device) {
  const auto ids = [&](const std::vector<std::int64_t>& v) { return Tensor::of({std::int64_t(v.size())}, v, device); };
  return {ids({4, 5, 6, 2, 7, 8, 9, 10, 2, 4, 10, 2}), Segments({4, 5, 3}).to(device),
          ids({2, 5, 4, 6, 2, 9, 9, 2, 10}), ids({5, 4, 6, 2, 9, 9, 2, 10, 2}), Segments({4, 3, 2}).to(device)};
}

class TinyTransformer {
 public:
  TinyTransformer(DType dtype, Device device, double dropout) : dtype_(dtype), device_(device), dropout_(dropout) {
    add("embed.weight", {kVocabulary, kWidth}, 1 / std::sqrt(double(kWidth)));
    for (int i = 0; i < kLayers; ++i) {
      add_block("encoder", i, {"self_attn"});
      add_block("decoder", i, {"self_attn", "cross_attn"});
    }
    for (const char* stack : {"encoder", "decoder"}) add_norm(std::string(stack) + ".norm");
  }

  std::map<std::string, Parameter>& parameters() { return parameters_; }

  // The loss summed over target tokens, and the number of them is the caller's business.
  Var loss(Tape& tape, const Batch& batch, std::uint32_t step, double label_smoothing) {
    tape_ = &tape;
    random_ = {.seed = 7, .stream = 0, .step = step};
    const Var memory = encode(tape.constant(batch.source), batch.sources);
    const Var hidden = decode(tape.constant(batch.input), batch.inputs, memory, batch.sources);
    const Var logits = linear(hidden, parameter("embed.weight"));
    return cross_entropy(logits, tape.constant(batch.target),
                         {.label_smoothing = label_smoothing, .ignore_index = kPad, .reduction = Reduction::sum});
  }

 private:
  Var encode(const Var& ids, const Segments& rows) {
    Var x = embed(ids, rows);
    for (int i = 0; i < kLayers; ++i) {
      const std::string layer = "encoder.layers." + std::to_string(i);
      const Tape::Scope scope(*tape_, layer);
      x = attend(layer + ".self_attn", x, rows, x, rows, /*causal=*/false);
      x = feed_forward(layer, x);
    }
    return norm("encoder.norm", x);
  }

  Var decode(const Var& ids, const Segments& rows, const Var& memory, const Segments& of_memory) {
    Var x = embed(ids, rows);
    for (int i = 0; i < kLayers; ++i) {
      const std::string layer = "decoder.layers." + std::to_string(i);
      const Tape::Scope scope(*tape_, layer);
      x = attend(layer + ".self_attn", x, rows, x, rows, /*causal=*/true);
      x = attend(layer + ".cross_attn", x, rows, memory, of_memory, /*causal=*/false);
      x = feed_forward(layer, x);
    }
    return norm("decoder.norm", x);
  }

  Var embed(const Var& ids, const Segments& rows) {
    const Var x = embedding(parameter("embed.weight"), ids, std::sqrt(double(kWidth)), kPad);
    return dropout(sinusoidal_positions(x, rows.places(), positions_), dropout_, next_random());
  }

  // x + dropout(out_proj(attention(norm(x), keys and values of memory, or of norm(x) where memory is x)))
  Var attend(const std::string& name, const Var& x, const Segments& rows, const Var& memory, const Segments& of_memory,
             bool causal) {
    const Var query = norm(name + "_norm", x), keys = memory.value().raw() == x.value().raw() ? query : memory;
    const Var q = project(name + ".q_proj", query), k = project(name + ".k_proj", keys),
              v = project(name + ".v_proj", keys);
    const Var y = attention(q, k, v, {.heads = kHeads, .causal = causal, .dropout = dropout_, .random = next_random()},
                            rows, of_memory);
    return residual(name + ".out_proj", y, x);
  }

  Var feed_forward(const std::string& layer, const Var& x) {
    const Var hidden = bias_activation(linear(norm(layer + ".ffn_norm", x), parameter(layer + ".fc1.weight")),
                                       parameter(layer + ".fc1.bias"), Activation::gelu);
    return residual(layer + ".fc2", hidden, x);
  }

  Var residual(const std::string& name, const Var& branch, const Var& x) {
    return bias_dropout_residual(linear(branch, parameter(name + ".weight")), parameter(name + ".bias"), x, dropout_,
                                 next_random());
  }
  Var project(const std::string& name, const Var& x) {
    return linear(x, parameter(name + ".weight"), parameter(name + ".bias"));
  }
  Var norm(const std::string& name, const Var& x) {
    return layer_norm(x, parameter(name + ".weight"), parameter(name + ".bias"));
  }
  Var parameter(const std::string& name) { return tape_->parameter(parameters_.at(name)); }
  Random next_random() {
    ++random_.stream;
    return random_;
  }

  void add(const std::string& name, Shape shape, double scale, double mean = 0) {
    const Tensor value = randn(std::move(shape), unsigned(parameters_.size()) + 1, scale, mean);
    parameters_.emplace(name, Parameter{name, value.to(dtype_).to(device_)});
  }
  void add_linear(const std::string& name, std::int64_t in, std::int64_t out) {
    add(name + ".weight", {out, in}, 1 / std::sqrt(double(in)));
    add(name + ".bias", {out}, 0.1);
  }
  void add_norm(const std::string& name) {
    add(name + ".weight", {kWidth}, 0.2, 1);
    add(name + ".bias", {kWidth}, 0.1);
  }
  void add_block(const std::string& stack, int i, const std::vector<std::string>& attentions) {
    const std::string layer = stack + ".layers." + std::to_string(i) + ".";
    for (const std::string& attention : attentions) {
      for (const char* projection : {".q_proj", ".k_proj", ".v_proj", ".out_proj"})
        add_linear(layer + attention + projection, kWidth, kWidth);
      add_norm(layer + attention + "_norm");
    }
    add_linear(layer + "fc1", kWidth, kHidden);
    add_linear(layer + "fc2", kHidden, kWidth);
    add_norm(layer + "ffn_norm");
  }

  DType dtype_;
  Device device_;
  double dropout_;
  std::map<std::string, Parameter> parameters_;
  Tensor positions_ = sinusoidal_table(/*rows=*/8, kWidth, dtype_, device_);
  Tape* tape_ = nullptr;
  Random random_;
};

}  // namespace foldgrad::testing
