#include <algorithm>
#include <unordered_map>

#include "models/transformer/inference_model.h"
#include "models/transformer/step_checks.h"
#include "ops/attention/step_attention.h"

namespace foldgrad {
namespace {

template <class T>
class CachedDecoder final : public StepDecoder {
  using X = compute_t<T>;

 public:
  CachedDecoder(const InferenceModel<T>& model, const Sentences& sentences)
      : model_(model),
        C_(model.config().width),
        heads_(model.config().heads),
        sources_(sentences.rows),
        history_(model.config(), sentences.rows.count()) {
    const Tensor states = model.encode(sentences);
    for (const InferenceLayer<T>& layer : model.decoder_layers) {
      memory_.push_back(Tensor::empty({sources_.rows(), 2 * C_}, dtype_of<T>));
      (*layer.kv)(sources_.rows(), states.raw(), memory_.back().raw());
    }
  }

  std::int64_t steps() const override { return history_.steps(); }
  Tensor step(const std::vector<std::int64_t>& tokens, const std::vector<std::int64_t>& parents) override;

 private:
  void find_groups();
  void reserve(std::int64_t rows);
  void project_tokens(const std::vector<std::int64_t>& tokens, const T* in);
  const T* attend_to_steps(std::size_t layer, std::int64_t rows);
  const T* attend_to_memory(std::size_t layer, std::int64_t rows);

  const InferenceModel<T>& model_;
  const std::int64_t C_, heads_;
  std::vector<Tensor> memory_;  // per layer, keys and values of the sources [tokens, 2 C]
  Segments sources_;
  std::vector<std::vector<Tensor>> qkv_;  // [step][layer]: queries, keys and values [rows of the step, 3 C]
  StepHistory history_;
  std::vector<std::int64_t> groups_;  // of neighbouring rows of one sentence: the first, and the end
  InferenceWorkspace<T> workspace_;
  Tensor token_rows_, token_qkv_;  // T
  Tensor stream_, logits_;         // X
};

template <class T>
void CachedDecoder<T>::find_groups() {
  const std::vector<std::int64_t>& sentence = history_.sentences();
  groups_.clear();
  for (std::size_t r = 0; r < sentence.size(); ++r)
    if (r == 0 || sentence[r] != sentence[r - 1]) groups_.push_back(std::int64_t(r));
  groups_.push_back(std::int64_t(sentence.size()));
}

template <class T>
void CachedDecoder<T>::reserve(std::int64_t rows) {
  std::vector<Tensor>& qkv = qkv_.emplace_back();
  for (std::size_t l = 0; l < memory_.size(); ++l) qkv.push_back(Tensor::empty({rows, 3 * C_}, dtype_of<T>));
  workspace_.reserve(rows, model_.config());
  if (stream_.defined() && stream_.shape()[0] >= rows) return;
  token_rows_ = Tensor::empty({rows, C_}, dtype_of<T>);
  token_qkv_ = Tensor::empty({rows, 3 * C_}, dtype_of<T>);
  stream_ = Tensor::empty({rows, C_}, dtype_of<X>);
  logits_ = Tensor::empty({rows, model_.config().target_vocabulary}, dtype_of<X>);
}

template <class T>
Tensor CachedDecoder<T>::step(const std::vector<std::int64_t>& tokens, const std::vector<std::int64_t>& parents) {
  history_.check(tokens, parents);
  const std::int64_t n = std::int64_t(tokens.size()), position = steps();
  history_.descend(parents);
  find_groups();
  reserve(n);
  X* x = stream_.data<X>();
  for (std::int64_t r = 0; r < n; ++r) model_.embed(model_.target_table, tokens[r], position, x + r * C_);
  const Segments rows = Segments::equal(n, 1);
  for (std::size_t l = 0; l < memory_.size(); ++l) {
    const InferenceLayer<T>& layer = model_.decoder_layers[l];
    layer.self_attention.run(rows, x, workspace_, [&](const T* in) {
      l == 0 ? project_tokens(tokens, in) : layer.qkv(n, in, qkv_.back()[l].raw());
      return attend_to_steps(l, n);
    });
    layer.cross_attention->run(rows, x, workspace_, [&](const T* in) {
      (*layer.q)(n, in, workspace_.query.raw());
      return attend_to_memory(l, n);
    });
    layer.feed_forward(rows, x, workspace_);
  }
  model_.output(n, model_.decoder_norm(rows, x, workspace_.normalized.template data<T>()), logits_.raw());
  return logits_.slice(0, n);
}

// Queries, keys and values of the first layer, where rows of the same token are still equal: a beam's hypotheses mostly
// end in the same few tokens, so only a fraction of the product has to be computed.
template <class T>
void CachedDecoder<T>::project_tokens(const std::vector<std::int64_t>& tokens, const T* in) {
  const std::int64_t n = std::int64_t(tokens.size()), columns = 3 * C_;
  std::unordered_map<std::int64_t, std::int64_t> rows;
  std::vector<std::int64_t> row_of;
  T* each = token_rows_.template data<T>();
  for (std::int64_t r = 0; r < n; ++r) {
    const auto [row, added] = rows.try_emplace(tokens[r], std::int64_t(rows.size()));
    if (added) std::copy_n(in + r * C_, C_, each + row->second * C_);
    row_of.push_back(row->second);
  }
  // oneDNN compiles one kernel per number of rows, so we pad to a few numbers.
  constexpr std::int64_t kWhole = 32;
  const std::int64_t different = std::int64_t(rows.size()),
                     whole = std::min(n, (different + kWhole - 1) / kWhole * kWhole);
  for (std::int64_t row = different; row < whole; ++row) std::copy_n(in, C_, each + row * C_);
  T *to = qkv_.back()[0].template data<T>(), *from = token_qkv_.template data<T>();
  if (whole == n) return model_.decoder_layers[0].qkv(n, in, to);
  model_.decoder_layers[0].qkv(whole, each, from);
#pragma omp parallel for schedule(static) if (n * columns >= 32768)
  for (std::int64_t r = 0; r < n; ++r) std::copy_n(from + row_of[r] * columns, columns, to + r * columns);
}

// The rows of a sentence share most of their ancestors, so few keys have to come from main memory.
template <class T>
const T* CachedDecoder<T>::attend_to_steps(std::size_t layer, std::int64_t rows) {
  T* y = workspace_.attended.template data<T>();
  std::vector<const T*> first_key;
  for (const std::vector<Tensor>& qkv : qkv_) first_key.push_back(qkv[layer].template data<T>() + C_);
  const StepAttention<T> p{.y = y,
                           .q = qkv_.back()[layer].template data<T>(),
                           .q_row = 3 * C_,
                           .heads = heads_,
                           .width = C_ / heads_,
                           .value_offset = C_};
  attend_rows(p, groups_, rows * steps(), [&](std::int64_t r, std::vector<const T*>& keys) {
    for (std::size_t s = 0; s < first_key.size(); ++s)
      keys.push_back(first_key[s] + history_.ancestors()[r][s] * 3 * C_);
  });
  return y;
}

template <class T>
const T* CachedDecoder<T>::attend_to_memory(std::size_t layer, std::int64_t rows) {
  T* y = workspace_.attended.template data<T>();
  const T* first_key = memory_[layer].template data<T>();
  const StepAttention<T> p{.y = y,
                           .q = workspace_.query.template data<T>(),
                           .q_row = C_,
                           .heads = heads_,
                           .width = C_ / heads_,
                           .value_offset = C_};
  attend_rows(p, groups_, rows * sources_.rows() / std::max<std::int64_t>(sources_.count(), 1),
              [&](std::int64_t r, std::vector<const T*>& keys) {
                const std::int64_t s = history_.sentences()[r];
                for (std::int64_t i = sources_.offset(s); i < sources_.offset(s + 1); ++i)
                  keys.push_back(first_key + i * 2 * C_);
              });
  return y;
}

}  // namespace

template <class T>
std::unique_ptr<StepDecoder> make_step_decoder(const InferenceModel<T>& model, const Sentences& sentences) {
  return std::make_unique<CachedDecoder<T>>(model, sentences);
}

template std::unique_ptr<StepDecoder> make_step_decoder(const InferenceModel<float>&, const Sentences&);
template std::unique_ptr<StepDecoder> make_step_decoder(const InferenceModel<double>&, const Sentences&);
template std::unique_ptr<StepDecoder> make_step_decoder(const InferenceModel<bf16>&, const Sentences&);

}  // namespace foldgrad
