// Times inference with a Transformer of transformer_iwslt_de_en's size and random weights: the encoder, greedy decoding
// and beam search, with several normalizers. Compares the encoder's matrix products with the peak of fused
// multiply-adds, measured in the same run. Decoding is forced to generate 25 tokens per sentence, including the end.
//
//   inference_bench [Google Benchmark's flags]      TASK/NORMALIZER/DTYPE
//   inference_bench --save=DIRECTORY                writes the model with layer normalization, for other programs
//   encoder/32x32: 32 sentences of 32 tokens; greedy/64x25, beam5/64x25: 64 sentences of 25 tokens
#include "bench/machine.h"
#include "bench/model_benches.h"
#include "models/transformer/beam_search.h"
#include "train/checkpoints/model_directory.h"

namespace foldgrad::bench {
namespace {

struct Task {
  const char* name;
  std::int64_t batch, length, beam;  // beam 0 means only the encoder
};
constexpr Task kTasks[] = {{"encoder/32x32", 32, 32, 0}, {"encoder/1x32", 1, 32, 0}, {"greedy/64x25", 64, 25, 1},
                           {"greedy/1x25", 1, 25, 1},    {"beam5/64x25", 64, 25, 5}, {"beam5/1x25", 1, 25, 5}};

TransformerConfig config_of(const std::string& normalizer) {
  TransformerConfig config;
  config.source_vocabulary = 8848, config.target_vocabulary = 6632, config.share_embeddings = "decoder";
  config.normalizer = normalizer;
  return config;
}

// Returns the floating-point operations of the encoder's matrix products, the only products counted.
double matrix_flops(const Task& task, const TransformerConfig& c) {
  const double tokens = double(task.batch * task.length), d = double(c.width);
  return 2 * tokens * double(c.encoder_layers) *
         (4 * d * d + 2 * d * double(c.ffn_width) + 2 * double(task.length) * d);
}

// Keeps the models, since the repetitions of different benchmarks may be interleaved.
const InferenceTransformer& model_of(const std::string& normalizer, DType dtype) {
  static std::map<std::string, std::unique_ptr<Model>> models;
  static std::map<std::pair<std::string, DType>, std::unique_ptr<InferenceTransformer>> all;
  std::unique_ptr<Model>& model = models[normalizer];
  if (!model)
    model = model_with(normalizer,
                       [](const std::string& n) { return std::make_unique<Transformer>(config_of(n), /*seed=*/1); });
  std::unique_ptr<InferenceTransformer>& inference = all[{normalizer, dtype}];
  if (!inference) inference = std::make_unique<InferenceTransformer>(as_transformer(*model, "bench"), dtype);
  return *inference;
}

void run(benchmark::State& state, const Task& task, const std::string& normalizer, DType dtype) {
  const InferenceTransformer& model = model_of(normalizer, dtype);
  const Sentences sources{Draws().ids({task.batch * task.length}, 4, model.config().source_vocabulary),
                          Segments::equal(task.batch, task.length)};
  const std::int64_t last = task.length - 1;
  const DecodingOptions options{.beam = task.beam, .max_length_a = 0, .max_length_b = last, .min_length = last};
  const auto body = [&] {
    if (task.beam == 0)
      benchmark::DoNotOptimize(model.encode(sources).raw());
    else
      benchmark::DoNotOptimize(beam_search(model, sources, options).data());
  };
  body();  // allocates memory and compiles the products
  for (auto _ : state) body();

  state.counters["tokens/s"] = rate(double(task.batch * task.length));
  if (task.beam > 0) return;
  state.counters["GFLOP/s"] = rate(matrix_flops(task, model.config()) / 1e9);
  state.counters["of_peak_%"] = rate(100 * matrix_flops(task, model.config()) / cpu_limits().fma);
}

int register_all(int&, char**) {
  describe_machine(Device::cpu);
  for (const Task& task : kTasks)
    for (DType dtype : {DType::f32, DType::bf16})
      for (const char* normalizer : {"ln", "rmsnorm", "un", "un_folded", "none"})
        add(fmt::format("{}/{}/{}", task.name, normalizer, name(dtype)), run, task, normalizer, dtype);
  return 0;
}

}  // namespace
}  // namespace foldgrad::bench

int main(int argc, char** argv) {
  using namespace foldgrad;
  const std::string_view option = argc == 2 ? argv[1] : "", save = "--save=";
  if (option.starts_with(save)) {
    write_model_directory(std::string(option.substr(save.size())), Transformer(bench::config_of("ln"), /*seed=*/1));
    return 0;
  }
  return bench::run_program("inference_bench", argc, argv, bench::register_all);
}
