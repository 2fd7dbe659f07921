// Times a training step of the Transformer: forward, backward, the norm of the gradient and Adam, on one batch without
// padding. Compares its matrix products with the peak of fused multiply-adds on the CPU, or with a large product on a
// GPU, both measured in the same run.
//
//   transformer_bench [--device=cuda] [Google Benchmark's flags]
//   TASK/step/DTYPE, on a GPU also TASK/step/un/DTYPE. A time on a GPU is the median of 200 steps after 50 others.
//   bench/pytorch_transformer.py uses the same names.
#include <algorithm>

#include "bench/machine.h"
#include "bench/model_benches.h"
#include "bench/training_step.h"
#include "models/transformer/transformer.h"

namespace foldgrad::bench {
namespace {

struct Task {
  const char* name;
  TransformerConfig config;
  std::int64_t batch, length;  // of source and target
};

// Returns transformer_iwslt_de_en with the joined vocabulary of IWSLT14 de-en, and the small model for Multi30k.
std::vector<Task> tasks(Device device) {
  TransformerConfig iwslt, multi30k;
  iwslt.source_vocabulary = iwslt.target_vocabulary = 10152;
  multi30k.source_vocabulary = multi30k.target_vocabulary = 6000;
  multi30k.width = 256, multi30k.ffn_width = 512;
  multi30k.encoder_layers = multi30k.decoder_layers = 3;
  multi30k.dropout = 0.2;
  const std::int64_t more = device == Device::cuda ? 2 : 1;  // 4,096 tokens of each side, as in the recipe of IWSLT
  return {{"iwslt", iwslt, 64 * more, 32}, {"multi30k", multi30k, 128 * more, 16}};
}

// Counts two products in the backward pass for each product in the forward pass, and counts causal attention in full.
StepWork step_work(const Task& task, std::int64_t parameters) {
  const TransformerConfig& c = task.config;
  const double tokens = double(task.batch * task.length), d = double(c.width), ffn = double(c.ffn_width);
  const double feed_forward = 2 * d * ffn, attention = 4 * d * d + 2 * double(task.length) * d;
  const double weights = double(c.encoder_layers) * (attention + feed_forward) +
                         double(c.decoder_layers) * (2 * attention + feed_forward) + d * double(c.target_vocabulary);
  StepWork work{.flops = 3 * 2 * tokens * weights};
  for (int side : {1, 2})  // the decoder's layers have two attentions
    for (std::int64_t k = 0; k < (side == 1 ? c.encoder_layers : c.decoder_layers); ++k)
      work.add_layer(side, tokens * d, tokens * ffn);
  work.add_ends(2 * tokens * d, tokens * double(c.target_vocabulary), parameters);
  return work;
}

TranslationBatch make_batch(const Task& task) {
  const Shape shape{task.batch * task.length};
  Draws draw;
  const Tensor source = draw.ids(shape, 4, task.config.source_vocabulary),
               input = draw.ids(shape, 4, task.config.target_vocabulary),
               target = draw.ids(shape, 4, task.config.target_vocabulary);
  const Segments rows = Segments::equal(task.batch, task.length);
  return {{source, rows}, {input, rows}, target};
}

void run(benchmark::State& state, const Task& task, DType dtype, Device device, double peak) {
  const TranslationBatch batch = make_batch(task);
  auto model = std::make_unique<Transformer>(task.config, /*seed=*/1, DType::f32, device);
  const StepWork work = step_work(task, model->parameter_count());
  TrainingStep step(std::move(model), batch.named(), batch.target.size(), Adam(), dtype);
  // As in training, the host does not wait between the steps on a GPU. A GPU that has been idle takes a while to reach
  // its full clock rate.
  const bool gpu = device == Device::cuda;
  const auto steps = [&](int count) {
    return device_seconds(
        device, count, [] {}, [&] { step(); });
  };
  if (gpu) steps(50);
  double total = 0;
  for (auto _ : state) {
    std::vector<double> seconds = steps(gpu ? 200 : 1);
    std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
    const double median = seconds[seconds.size() / 2];
    state.SetIterationTime(median);
    total += median;
  }
  const double rate = double(state.iterations()) / total;
  state.counters["tokens/s"] = rate * 2 * double(task.batch * task.length);
  state.counters["GFLOP/s"] = rate * work.flops / 1e9;
  state.counters["of_peak_%"] = rate * 100 * work.flops / peak;
  if (!gpu && dtype == DType::f32) state.counters["of_floor_%"] = rate * 100 * work.floor();
}

int register_all(int& argc, char** argv) {
  const Device device = device_argument(argc, argv);
  const bool gpu = device == Device::cuda;
  describe_machine(device);
  for (Task task : tasks(device))
    for (const char* normalizer : {"ln", "un"})
      for (DType dtype : {DType::f32, DType::bf16}) {
        const bool un = normalizer == std::string("un");
        if (un && !gpu) continue;
        task.config.normalizer = normalizer;
        const std::string name = fmt::format("{}/step{}/{}", task.name, un ? "/un" : "", foldgrad::name(dtype));
        auto* b = benchmark::RegisterBenchmark(name.c_str(), run, task, dtype, device,
                                               gpu ? product_rate(device, dtype) : cpu_limits().fma);
        b->UseManualTime()->MeasureProcessCPUTime()->Unit(benchmark::kMillisecond);
        if (gpu) b->Iterations(1);
      }
  return 0;
}

}  // namespace
}  // namespace foldgrad::bench

int main(int argc, char** argv) {
  return foldgrad::bench::run_program("transformer_bench", argc, argv, foldgrad::bench::register_all);
}
