// The decoder-only Transformer of config.h, which predicts the next token of a text.
//
//   Gpt model(config, seed);
//   Var loss = model.loss({{"ids", ids}, {"target", next}}, {.tape = tape, .dtype = DType::f32, .training = true}, 0);
//
//   [GPT-1]  x = drop(E[id] + P[position]), or drop(sqrt(width) E[id] + sinusoid(position)); positions are counted from
//            0 in each sequence. With rotary positions x = drop(E[id]), and each layer rotates its queries and keys by
//            their positions [ROT-2]. With scaled_embedding E[id] is multiplied by a learned number.
//   [GPT-2]  logits = h O^T + o; O is E unless config.tied is off; o only if output_bias
//   [GPT-3]  loss = sum over all targets of the cross entropy
//
//   The inputs are ids and target, i64 [B, T] with T <= context. A token attends to itself and to earlier ones.
//   Parameters have nanoGPT's names, shapes and initial values (karpathy/nanoGPT, model.py): wte [vocabulary, width];
//   wpe [context, width] if positions are learned; h.I.ln_1, h.I.attn.c_attn, h.I.attn.c_proj, h.I.ln_2,
//   h.I.mlp.c_fc, h.I.mlp.c_proj, ln_f, lm_head. Weights are initialized from N(0, 0.02), those of both c_proj from
//   N(0, 0.02 / sqrt(2 * layers)), and biases to 0. ResidualConstants::initial_gain multiplies the weights of v, c_fc
//   and c_proj.
//
//   A LLaMA model (Touvron et al., 2023) has rotary positions, is gated with silu (which adds h.I.mlp.c_gate), and
//   turns off bias, tied and depth_scaled_init. With dyt it also sets scaled_embedding, which adds wte.scale [1].
#pragma once
#include <deque>
#include <map>

#include "models/blocks/layers.h"
#include "models/gpt/config.h"
#include "models/model.h"
#include "ops/rotary/rotary.h"

namespace foldgrad {

class Gpt final : public Model {
 public:
  // Parameters have `dtype`. Without a seed, all parameters except the normalizers' are 0 until values are copied into
  // them. Throws std::invalid_argument for a configuration that config.validate() or make_normalizer refuses.
  Gpt(const GptConfig& config, std::optional<std::uint64_t> seed, DType dtype = DType::f32,
      Device device = Device::cpu);
  const GptConfig& config() const { return config_; }

  // Computes [GPT-1]. `ids` is i64 [N] on the model's device; `places` has the positions, i64 [N] on the CPU.
  Var embed(const Tensor& ids, const Tensor& places, const ForwardPass& pass, std::int64_t first_row = 0);
  // Runs the layers on x [N, width], whose sequences are `rows`; `attend` computes the layers' attention.
  Var decode(Var x, const Segments& rows, const Attend& attend, const ForwardPass& pass);
  Var logits(const Var& hidden, const ForwardPass& pass);  // returns [N, vocabulary]
  // Projects a layer's input to queries, keys and values [N, 3 width]. If positions are rotary, rotates queries and
  // keys. `places` has the positions, i64 [N] on the model's device.
  Var project(AttentionBlock& block, const Var& in, const Tensor& places, const ForwardPass& pass);

  const char* family() const override { return "gpt"; }
  using Model::loss;
  // Returns one row per token. Throws std::invalid_argument unless ids are i64 [B, T] with 1 <= T <= context.
  Var forward(const NamedTensors& inputs, const ForwardPass& pass) override;
  Var loss_of(const Var& logits, const NamedTensors& inputs, double label_smoothing) override;
  NamedTensors smallest_inputs() const override;
  // Returns eight sequences of up to 16 tokens.
  NamedTensors random_inputs(std::uint64_t seed) const override;
  std::unique_ptr<Model> alike(DType dtype, Device device, const FoldedGraph* folded) const override;
  // Writes model.onnx, with config.json and generation_config.json, as Hugging Face's Optimum loads them.
  std::vector<std::string> write_onnx(const std::string& directory) override;

 private:
  void list(ModelParts& parts) override;
  void initialize(std::uint64_t seed);
  Parameter& output_table() { return config_.tied ? embeddings_ : output_; }

  GptConfig config_;
  Parameter embeddings_, scale_, positions_, output_, output_bias_;
  std::deque<TransformerLayer> layers_;  // a deque never moves its elements
  std::unique_ptr<Normalizer> norm_;     // null with post-norm
  std::map<DType, Tensor> sinusoids_;
  std::map<DType, RotaryTable> rotations_;
  Segments rows_;  // the sequences of the last batch
};

}  // namespace foldgrad
