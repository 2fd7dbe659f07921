#include "models/transformer/inference.h"

#include <cmath>

#include "models/transformer/inference_model.h"
#include "models/transformer/step_checks.h"
#include "models/transformer/taped_inference.h"
#include "ops/attention/attention_kernels.h"

namespace foldgrad {
namespace {

// y [tokens, C] from qkv [tokens, 3 C].
template <class T>
void attend_to_own(const Segments& rows, std::int64_t heads, std::int64_t C, const T* qkv, T* y, compute_t<T>* L) {
  std::int64_t pairs = 0;
  for (std::int64_t s = 0; s < rows.count(); ++s) pairs += rows.room(s) * rows.room(s);
  const AttentionShape shape{.segments = rows.count(),
                             .heads = heads,
                             .width = C / heads,
                             .q_offsets = rows.offsets().data<std::int64_t>(),
                             .k_offsets = rows.offsets().data<std::int64_t>(),
                             .k_lengths = rows.lengths().data<std::int64_t>(),
                             .rows = rows.rows(),
                             .longest_queries = rows.longest(),
                             .longest_keys = rows.longest(),
                             .products = pairs * C,
                             .q_row = 3 * C,
                             .k_row = 3 * C,
                             .scale = 1 / std::sqrt(double(C / heads)),
                             .causal = false,
                             .drop_below = 0,
                             .keep_factor = 1,
                             .random = {}};
  attention_cpu(AttentionForward<T>{.y = y, .L = L, .q = qkv, .k = qkv + C, .v = qkv + 2 * C, .shape = shape});
}

}  // namespace

template <class T>
InferenceModel<T>::InferenceModel(Transformer& from)
    : model(from),
      source_table(from.rows_of(from.source_table()).to(dtype_of<X>)),
      target_table(from.rows_of(from.target_table()).to(dtype_of<X>)),
      positions(from.positions(dtype_of<X>)),
      encoder_norm(from.encoder_norm(), from.config().width),
      decoder_norm(from.decoder_norm(), from.config().width),
      output(from.rows_of(from.output_table()), from.output_bias() ? from.output_bias()->value : Tensor(),
             {.in = dtype_of<T>, .out = dtype_of<X>}) {
  for (TransformerLayer& layer : from.encoder_layers()) encoder_layers.emplace_back(layer, from.config());
  for (TransformerLayer& layer : from.decoder_layers()) decoder_layers.emplace_back(layer, from.config());
}

template <class T>
void InferenceModel<T>::embed(const Tensor& table, std::int64_t id, std::int64_t position, X* x) const {
  const std::int64_t C = config().width;
  const X *row = table.data<X>() + id * C, *place = positions.data<X>() + (position + 2) * C;  // [POS-2]
  const X scale = X(std::sqrt(double(C)));
#pragma omp simd
  for (std::int64_t c = 0; c < C; ++c) x[c] = scale * row[c] + place[c];
}

template <class T>
Tensor InferenceModel<T>::encode(const Sentences& sentences) const {
  const Segments& rows = sentences.rows;
  const std::int64_t C = config().width, n = rows.rows();
  const Tensor stream = Tensor::empty({n, C}, dtype_of<X>), qkv = Tensor::empty({n, 3 * C}, dtype_of<T>),
               L = Tensor::empty({n, config().heads}, dtype_of<X>), states = Tensor::empty({n, C}, dtype_of<T>);
  X* x = stream.data<X>();
  InferenceWorkspace<T> workspace;
  workspace.reserve(n, config());
  const std::int64_t* ids = sentences.ids.template data<std::int64_t>();
  for (std::int64_t s = 0; s < rows.count(); ++s)
    for (std::int64_t i = rows.offset(s); i < rows.offset(s + 1); ++i)
      embed(source_table, ids[i], i - rows.offset(s), x + i * C);
  T* attended = workspace.attended.template data<T>();
  for (const InferenceLayer<T>& layer : encoder_layers) {
    layer.self_attention.run(rows, x, workspace, [&](const T* in) {
      layer.qkv(n, in, qkv.data<T>());
      attend_to_own(rows, config().heads, C, qkv.data<T>(), attended, L.data<X>());
      return attended;
    });
    layer.feed_forward(rows, x, workspace);
  }
  const T* out = encoder_norm(rows, x, states.data<T>());
  if (out == states.data<T>()) return states;
  if constexpr (std::is_same_v<T, X>) return stream;
  return states;
}

template <class T>
Tensor InferenceModel<T>::encode(const Tensor& source, const Tensor& source_mask) const {
  return encode(source_sentences(config(), source, source_mask));
}

template <class T>
std::unique_ptr<StepDecoder> InferenceModel<T>::decoder(const Tensor& source, const Tensor& source_mask) const {
  require_known_tokens(model);
  return make_step_decoder(*this, source_sentences(config(), source, source_mask));
}

template class InferenceModel<float>;
template class InferenceModel<double>;
template class InferenceModel<bf16>;

std::unique_ptr<InferenceTransformer> InferenceTransformer::make(Transformer& model) {
  return make(model, model.dtype() == DType::f64 ? DType::f64 : DType::f32);
}

std::unique_ptr<InferenceTransformer> InferenceTransformer::make(Transformer& model, DType dtype) {
  const bool exact = model.dtype() == DType::f64;
  FOLDGRAD_CHECK(exact ? dtype == DType::f64 : dtype == DType::f32 || dtype == DType::bf16,
                 "inference: a model of {} runs in {}, got {}", name(model.dtype()), exact ? "f64" : "f32 or bf16",
                 name(dtype));
  if (model.device() != Device::cpu) return make_taped_inference(model, dtype);
  const bool padding_counts = !model.config().mask_normalizers;
  for (const Normalizer* norm : model.normalizers())
    FOLDGRAD_CHECK(!padding_counts || !norm->mixes_tokens(),
                   "inference: leaves padding out, which {} ({}) must see with mask_normalizers off", norm->site(),
                   norm->info().name);
  if (exact) return std::make_unique<InferenceModel<double>>(model);
  if (dtype == DType::f32) return std::make_unique<InferenceModel<float>>(model);
  return std::make_unique<InferenceModel<bf16>>(model);
}

}  // namespace foldgrad
