// Times normalizers as the papers of UN (table 8) and Dynamic Tanh do, at two levels: one layer, and a whole model. The
// time of a model's normalizers is its time minus that of the same model without any. Also measures the memory of a
// model's activations: the peak of all tensors in addition to weights and inputs.
//
//   normalizer_bench [Google Benchmark's flags]      layer/NORMALIZER/PHASE/DTYPE, MODEL/NORMALIZER/PHASE/DTYPE
//   PHASE is infer, or train, which is a forward and a backward pass without the optimizer. Some names are the same in
//   bench/pytorch_normalizers.py.
//
// `traffic_ms` is the time of a copy of the bytes that the normalizers must move, measured in the same run.
#include "bench/machine.h"
#include "bench/model_benches.h"
#include "engine/memory.h"
#include "models/cct/cct.h"
#include "models/gpt/gpt.h"
#include "models/swin/swin.h"
#include "models/transformer/inference.h"
#include "models/vit/vit.h"

namespace foldgrad::bench {
namespace {

constexpr std::int64_t kLayerRows = 4096, kLayerWidth = 4096;

// Reports the traffic. A normalizer reads x and writes y; its backward pass reads x and dy and writes dx. Reports
// nothing if the number of normalized elements is 0.
void report(benchmark::State& state, double normalized, DType dtype, bool training) {
  if (normalized == 0) return;
  const double bytes = normalized * double(size_of(dtype)) * (training ? 5 : 2);
  state.counters["traffic_ms"] = 1e3 * bytes / cpu_limits().copy;
}

// Runs `body` once to allocate memory and to compile products, then reports the memory of another run and times further
// runs.
template <class Body>
void time(benchmark::State& state, const Body& body) {
  body();
  memory::release_cache(Device::cpu);  // otherwise larger blocks of earlier benchmarks would be reused and counted
  const std::size_t before = memory::statistics(Device::cpu).current;
  memory::reset_peak(Device::cpu);
  body();
  state.counters["activations_MB"] = double(memory::statistics(Device::cpu).peak - before) / 1e6;
  for (auto _ : state) body();
}

void layer(benchmark::State& state, const std::string& normalizer, bool training, DType dtype) {
  const auto norm = make_normalizer(normalizer, {}, "layer", kLayerWidth);
  Tensor values = Tensor::empty({kLayerRows, kLayerWidth}, DType::f32);
  for (std::int64_t i = 0; i < values.size(); ++i) values.data<float>()[i] = float(i % 257) / 128 - 1;
  const Tensor x = values.to(dtype), dy = x.clone();
  Tape tape(/*recording=*/training);
  time(state, [&] {
    const Var y = norm->apply(training ? tape.variable(x) : tape.constant(x), {.training = training});
    if (training) tape.backward(y, dy);
    benchmark::DoNotOptimize(y.value().raw());
    tape.clear();
  });
  report(state, double(x.size()), dtype, training);
}

struct Workload {
  std::unique_ptr<Model> model;
  NamedTensors inputs;
  double rows;  // rows of each normalizer's input; 0 if they differ
};

template <class Config>
Config config_of(const std::string& normalizer) {
  Config config;
  config.normalizer = normalizer;
  return config;
}

template <class ImageModelOfFamily, class Config>
Workload images(const std::string& normalizer, std::int64_t batch) {
  Config config = config_of<Config>(normalizer);
  config.classes = 10;
  const std::int64_t side = config.image_size;
  NamedTensors inputs{{"images", Draws().ids({batch, side, side, 3}, 0, 256).to(DType::u8)},
                      {"target", Draws().ids({batch}, 0, 10)}};
  double rows = 0;
  if constexpr (requires { config.tokens(); }) rows = double(batch * config.tokens());
  return {std::make_unique<ImageModelOfFamily>(config, /*seed=*/1), std::move(inputs), rows};
}

// Makes a single sequence. The authors of Dynamic Tanh also timed a single sequence, with a larger model.
Workload decoder(const std::string& normalizer) {
  GptConfig config = config_of<GptConfig>(normalizer);
  config.vocabulary = 1000, config.width = 512, config.ffn_width = 2048, config.heads = 8, config.context = 2048;
  config.dropout = config.attention_dropout = 0;
  const Tensor ids = Draws().ids({1, config.context}, 0, config.vocabulary);
  return {std::make_unique<Gpt>(config, /*seed=*/1), {{"ids", ids}, {"target", ids}}, double(config.context)};
}

using Workloads = std::vector<std::pair<std::string, std::function<Workload(const std::string& normalizer)>>>;
Workloads workloads() {
  return {{"vit_s4", [](const std::string& n) { return images<Vit, VitConfig>(n, 64); }},
          {"cct4_3x2", [](const std::string& n) { return images<Cct, CctConfig>(n, 128); }},
          {"swin_t", [](const std::string& n) { return images<Swin, SwinConfig>(n, 32); }},
          {"decoder", decoder}};
}

double normalized(const Model& model, double rows) {
  double elements = 0;
  for (const Normalizer* norm : model.normalizers())
    if (norm->info().name != "none") elements += rows * double(norm->channels());
  return elements;
}

void train(benchmark::State& state, const std::function<Workload(const std::string&)>& make,
           const std::string& normalizer, DType dtype) {
  const Workload workload = make(normalizer);
  Tape tape;
  std::uint32_t step = 0;
  time(state, [&] {
    tape.backward(workload.model->loss(workload.inputs,
                                       {.tape = tape, .dtype = dtype, .training = true, .step = ++step},
                                       /*label_smoothing=*/0));
    tape.clear();
  });
  report(state, normalized(*workload.model, workload.rows), dtype, true);
}

void infer(benchmark::State& state, const std::function<Workload(const std::string&)>& make,
           const std::string& normalizer, DType dtype) {
  const bool folds = normalizer == "un_folded";
  Workload workload = make(folds ? "un" : normalizer);
  if (folds) workload.model = fold(*workload.model, {.tied = FoldOptions::Tied::untie}).model;
  workload.model = workload.model->copy(dtype, Device::cpu);
  Tape tape(/*recording=*/false);
  time(state, [&] {
    benchmark::DoNotOptimize(workload.model->forward(workload.inputs, {.tape = tape, .dtype = dtype}).value().raw());
    tape.clear();
  });
  report(state, normalized(*workload.model, workload.rows), dtype, false);
}

// Runs the encoder of transformer_iwslt_de_en on 32 sentences of 32 tokens, with packed weights.
void encode(benchmark::State& state, const std::string& normalizer, DType dtype) {
  const std::unique_ptr<Model> model = model_with(normalizer, [](const std::string& n) {
    TransformerConfig config = config_of<TransformerConfig>(n);
    config.source_vocabulary = 8848, config.target_vocabulary = 6632, config.share_embeddings = "decoder";
    return std::make_unique<Transformer>(config, /*seed=*/1);
  });
  const InferenceTransformer inference(as_transformer(*model, "bench"), dtype);
  const TransformerConfig& config = inference.config();
  const Sentences sources{Draws().ids({32 * 32}, 4, config.source_vocabulary), Segments::equal(32, 32)};
  time(state, [&] { benchmark::DoNotOptimize(inference.encode(sources).raw()); });
  const double sites = normalizer == "none" || normalizer == "un_folded" ? 0 : double(2 * config.encoder_layers + 1);
  report(state, sites * 32 * 32 * double(config.width), dtype, false);
}

int register_all(int&, char**) {
  describe_machine(Device::cpu);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::string norm : {"ln", "rmsnorm", "dyt", "derf", "un", "affine"})
      for (const bool training : {false, true})
        add(fmt::format("layer/{}/{}/{}", norm, training ? "train" : "infer", name(dtype)), layer, norm, training,
            dtype);
    for (const std::string norm : {"none", "un_folded", "un", "ln", "rmsnorm", "dyt"}) {
      for (const auto& [model, make] : workloads()) {
        add(fmt::format("{}/{}/infer/{}", model, norm, name(dtype)), infer, make, norm, dtype);
        if (norm != "un_folded") add(fmt::format("{}/{}/train/{}", model, norm, name(dtype)), train, make, norm, dtype);
      }
      add(fmt::format("encoder/{}/infer/{}", norm, name(dtype)), encode, norm, dtype);
    }
  }
  return 0;
}

}  // namespace
}  // namespace foldgrad::bench

int main(int argc, char** argv) {
  return foldgrad::bench::run_program("normalizer_bench", argc, argv, foldgrad::bench::register_all);
}
