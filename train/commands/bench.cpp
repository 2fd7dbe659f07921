// foldgrad bench infer: what a normalizer costs at inference, and that a folded one costs nothing.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "engine/files/atomic_file.h"
#include "train/commands/commands.h"
#include "train/commands/infer_bench.h"
#include "train/system/device.h"
#include "train/system/exit_code.h"

namespace foldgrad {
namespace {

struct BenchCommand {
  InferBenchOptions bench;
  std::string plot, json, device = "cpu";
};

int bench_infer(const BenchCommand& o) {
  const std::vector<InferCost> costs = measure_inference(o.bench);
  fmt::print("{}", cost_table(costs));
  if (!o.json.empty()) write_file_atomically(o.json, cost_json(costs, o.bench).dump(1) + "\n");
  if (o.plot.empty()) return kExitOk;
  const std::vector<Plot> plots = cost_plots(costs, o.bench);
  const std::size_t rows = o.bench.dtypes.size() * 4;  // tasks
  draw_into(o.plot, plots, plots.size() / rows);
  return kExitOk;
}

}  // namespace

Action add_bench(CLI::App& command) {
  command.require_subcommand(1);
  CLI::App* infer = command.add_subcommand("infer", "Compare the cost of inference with several normalizers");
  const auto o = std::make_shared<BenchCommand>();
  InferBenchOptions& b = o->bench;
  const CLI::Range positive(std::int64_t(1), std::int64_t(1) << 20);
  infer->add_option("--batches", b.batches, "Batch sizes to measure, as 1,8,64 (default: 1,32)")
      ->delimiter(',')
      ->check(positive);
  infer->add_option("--lengths", b.lengths, "Tokens of each sentence, and of its forced translation (default: 32)")
      ->delimiter(',')
      ->check(positive);
  infer->add_option("--dtypes", b.dtypes, "f32, bf16 (default: both)")->delimiter(',');
  infer
      ->add_option("--normalizers", b.normalizers,
                   "Normalizers; those that fold also folded (default: ln,rmsnorm,un,none)")
      ->delimiter(',');
  infer->add_option("--beam", b.beam, "Width of the beam (default: 5)")->check(positive);
  infer->add_option("--rounds", b.rounds, "Repetitions of each measurement (default: 5)")->check(positive);
  infer->add_option("--width", b.config.width,
                    "Width of the model (default: 512); feed-forward blocks have twice that");
  infer->add_option("--layers", b.config.encoder_layers, "Layers of encoder and decoder (default: 6)");
  add_device_option(*infer, o->device);
  infer->add_flag("--cpu-time", b.cpu_time,
                  "Measure the CPU time of all threads instead of wall-clock time: for busy machines");
  infer->add_option("--json", o->json, "Write the figures to this file");
  add_plot_option(*infer, "--plot", o->plot, "Draw them against length and batch size into this file");
  infer->add_option("--save", b.save, "Write the models into this directory, for comparison with other programs");
  return [o] {
    TransformerConfig& config = o->bench.config;
    config.ffn_width = 2 * config.width;
    config.decoder_layers = config.encoder_layers;
    o->bench.device = require_device(o->device);
    return bench_infer(*o);
  };
}

}  // namespace foldgrad
