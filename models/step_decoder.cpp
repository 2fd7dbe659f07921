#include "models/step_decoder.h"

#include <cmath>

#include "engine/vector_math.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/embedding/embedding.h"
#include "ops/linear/linear.h"

namespace foldgrad {
namespace {

// Attention of one query to the keys and values that are pointed to, head by head. `weight`: room for one per key.
template <class T>
void attend(const T* q, T* y, const std::vector<const T*>& keys, const std::vector<const T*>& values,
            std::vector<T>& weight, int heads, std::int64_t D) {
  const T scale = T(1 / std::sqrt(double(D)));
  const std::size_t n = keys.size();
  weight.resize(n);
  for (int h = 0; h < heads; ++h) {
    const std::int64_t first = h * D;
    const T* query = q + first;
    T* out = y + first;
    T top = -std::numeric_limits<T>::infinity(), total = 0;
    for (std::size_t j = 0; j < n; ++j) {
      const T* key = keys[j] + first;
      T dot = 0;
#pragma omp simd reduction(+ : dot)
      for (std::int64_t d = 0; d < D; ++d) dot += query[d] * key[d];
      weight[j] = dot * scale;
      top = std::max(top, weight[j]);
    }
    for (std::size_t j = 0; j < n; ++j) total += weight[j] = fast_exp(weight[j] - top);
    std::fill_n(out, D, T(0));
    for (std::size_t j = 0; j < n; ++j) {
      const T w = weight[j] / total;
      const T* value = values[j] + first;
#pragma omp simd
      for (std::int64_t d = 0; d < D; ++d) out[d] += w * value[d];
    }
  }
}

// Attention of every row; choose(row, keys, values) names what it attends to.
template <class T, class Choose>
void attend_rows(const Tensor& q, const Tensor& y, int heads, const Choose& choose) {
  const std::int64_t C = q.shape()[-1], rows = q.size() / C;
  const T* queries = q.data<T>();
  T* out = y.data<T>();
#pragma omp parallel if (rows >= 16)
  {
    std::vector<const T*> keys, values;
    std::vector<T> weight;
#pragma omp for schedule(static)
    for (std::int64_t r = 0; r < rows; ++r) {
      keys.clear(), values.clear();
      choose(r, keys, values);
      attend(queries + r * C, out + r * C, keys, values, weight, heads, C / heads);
    }
  }
}

// One token at a time is all that the cache holds, so every token must be normalized alone.
void check_normalizers(Transformer& model) {
  for (const Normalizer* norm : model.normalizers()) {
    const std::string& kind = norm->info().name;
    const bool mixes = kind == "instancenorm" || (kind == "groupnorm" && norm->options().text("axes") == "sample");
    FOLDGRAD_CHECK(!mixes, "decoding: {} ({}) has statistics over the tokens of a sentence, which are not known yet",
                   norm->site(), kind);
  }
}

}  // namespace

StepDecoder::StepDecoder(Transformer& model, const Tensor& source, const Tensor& source_mask)
    : model_(model), pass_{.tape = tape_, .dtype = model.dtype() == DType::f64 ? DType::f64 : DType::f32} {
  FOLDGRAD_CHECK(model.device() == Device::cpu && source.device() == Device::cpu,
                 "decoding: runs on cpu, got a model on "
                 "{} and a source on {}",
                 name(model.device()), name(source.device()));
  check_normalizers(model);
  const Var memory = model.encode(source, source_mask, pass_);
  for (TransformerLayer& layer : model.decoder_layers()) {
    AttentionBlock& block = *layer.cross_attention;
    layers_.push_back({block.k(memory, pass_).value(), block.v(memory, pass_).value(), {}, {}});
  }
  const std::int64_t B = source.shape()[0], S = source.shape()[1];
  const std::vector<std::uint8_t> mask = source_mask.values<std::uint8_t>();
  seen_.resize(B), ancestors_.resize(B), sentence_.resize(B);
  for (std::int64_t b = 0; b < B; ++b) {
    sentence_[b] = b;
    for (std::int64_t s = 0; s < S; ++s)
      if (mask[b * S + s]) seen_[b].push_back(b * S + s);
  }
}

void StepDecoder::descend(const std::vector<std::int64_t>& parents) {
  std::vector<std::int64_t> sentence;
  std::vector<std::vector<std::int64_t>> ancestors;
  for (std::size_t r = 0; r < parents.size(); ++r) {
    const std::int64_t parent = parents[r];
    FOLDGRAD_CHECK(parent >= 0 && parent < std::int64_t(sentence_.size()),
                   "decoding: parents must be in [0, {}), got {} for row {}", sentence_.size(), parent, r);
    sentence.push_back(sentence_[parent]);
    ancestors.push_back(ancestors_[parent]);
    ancestors.back().push_back(std::int64_t(r));
  }
  sentence_ = std::move(sentence);
  ancestors_ = std::move(ancestors);
}

Tensor StepDecoder::step(const std::vector<std::int64_t>& tokens, const std::vector<std::int64_t>& parents) {
  const TransformerConfig& config = model_.config();
  FOLDGRAD_CHECK(tokens.size() == parents.size(), "decoding: needs one parent per token, got {} for {}", parents.size(),
                 tokens.size());
  FOLDGRAD_CHECK(steps_ < config.max_positions, "decoding: there are max_positions = {} steps", config.max_positions);
  descend(parents);
  const std::int64_t rows = std::int64_t(tokens.size());
  const Var ids = tape_.constant(Tensor::of<std::int64_t>({rows, 1}, tokens));
  const Tensor position = model_.positions(pass_.dtype).slice(steps_ + 2, steps_ + 3).reshape({config.width});
  Var x = embedding(pass_.use(model_.target_table()), ids, std::sqrt(double(config.width)), config.pad);
  x = add_bias(x, tape_.constant(position));
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    x = cross_attention(i, self_attention(i, x));
    x = model_.decoder_layers()[i].feed_forward(x, nullptr, pass_);
  }
  if (Normalizer* norm = model_.decoder_norm()) x = norm->apply(x, {});
  ++steps_;
  return model_.logits(x, pass_).value().reshape({rows, config.target_vocabulary});
}

Var StepDecoder::self_attention(std::size_t layer, const Var& x) {
  AttentionBlock& block = model_.decoder_layers()[layer].self_attention;
  const Var in = block.sublayer.inner(x, nullptr, pass_), q = block.q(in, pass_);
  layers_[layer].keys.push_back(block.k(in, pass_).value());
  layers_[layer].values.push_back(block.v(in, pass_).value());
  const Tensor y = Tensor::empty(q.shape(), q.dtype());
  if (q.dtype() == DType::f64)
    attend_to_steps<double>(layers_[layer], q.value(), y);
  else
    attend_to_steps<float>(layers_[layer], q.value(), y);
  return block.sublayer.join(tape_.constant(y), x, nullptr, pass_);
}

Var StepDecoder::cross_attention(std::size_t layer, const Var& x) {
  AttentionBlock& block = *model_.decoder_layers()[layer].cross_attention;
  const Var q = block.q(block.sublayer.inner(x, nullptr, pass_), pass_);
  const Tensor y = Tensor::empty(q.shape(), q.dtype());
  if (q.dtype() == DType::f64)
    attend_to_memory<double>(layers_[layer], q.value(), y);
  else
    attend_to_memory<float>(layers_[layer], q.value(), y);
  return block.sublayer.join(tape_.constant(y), x, nullptr, pass_);
}

template <class T>
void StepDecoder::attend_to_steps(const Layer& layer, const Tensor& q, const Tensor& y) const {
  const std::int64_t C = q.shape()[-1];
  std::vector<const T*> first_key, first_value;
  for (const Tensor& t : layer.keys) first_key.push_back(t.data<T>());
  for (const Tensor& t : layer.values) first_value.push_back(t.data<T>());
  attend_rows<T>(q, y, int(model_.config().heads), [&](std::int64_t row, auto& keys, auto& values) {
    const std::vector<std::int64_t>& ancestors = ancestors_[row];
    for (std::size_t s = 0; s < ancestors.size(); ++s) {
      keys.push_back(first_key[s] + ancestors[s] * C);
      values.push_back(first_value[s] + ancestors[s] * C);
    }
  });
}

template <class T>
void StepDecoder::attend_to_memory(const Layer& layer, const Tensor& q, const Tensor& y) const {
  const std::int64_t C = q.shape()[-1];
  const T *first_key = layer.memory_keys.data<T>(), *first_value = layer.memory_values.data<T>();
  attend_rows<T>(q, y, int(model_.config().heads), [&](std::int64_t row, auto& keys, auto& values) {
    for (std::int64_t place : seen_[sentence_[row]]) {
      keys.push_back(first_key + place * C);
      values.push_back(first_value + place * C);
    }
  });
}

}  // namespace foldgrad
