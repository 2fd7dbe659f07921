// foldgrad bench infer: what a normalizer costs at inference, and that a folded one costs nothing.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>

#include "engine/memory.h"
#include "models/decoding.h"
#include "models/fold_transformer.h"
#include "train/commands.h"
#include "train/exit_codes.h"

namespace foldgrad {
namespace {

struct BenchOptions {
  std::int64_t batch = 32, length = 32, rounds = 5, beam = 5;
  std::string dtype = "f32";
  TransformerConfig config{.source_vocabulary = 8848, .target_vocabulary = 6632, .share_embeddings = "decoder"};
};

struct Variant {
  std::string name;
  std::unique_ptr<Transformer> model;
  std::unique_ptr<InferenceTransformer> inference;
  std::vector<std::vector<double>> milliseconds = {};  // [task][round]
  double room = 0;                                     // MB that the widest task needs beside the weights
};

std::vector<Variant> variants(const BenchOptions& o) {
  std::vector<Variant> all;
  const DType dtype = o.dtype == "bf16" ? DType::bf16 : DType::f32;
  const auto add = [&](const char* name, std::unique_ptr<Transformer> model) {
    auto inference = InferenceTransformer::make(*model, dtype);
    all.push_back({.name = name, .model = std::move(model), .inference = std::move(inference)});
  };
  TransformerConfig config = o.config;
  for (const char* normalizer : {"ln", "rmsnorm", "un", "none"}) {
    config.normalizer = normalizer;
    auto model = std::make_unique<Transformer>(config, /*seed=*/1);
    if (config.normalizer == "un") {
      auto folded = fold(*model, {.tied = FoldOptions::Tied::untie}).model;
      add("un", std::move(model));
      add("un, folded", std::move(folded));
    } else {
      add(normalizer, std::move(model));
    }
  }
  return all;
}

using Task = std::function<void(const InferenceTransformer&)>;

std::vector<Task> tasks(const BenchOptions& o) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < o.batch * o.length; ++i) ids.push_back(4 + i * 7919 % (o.config.source_vocabulary - 4));
  const Tensor source = Tensor::of({o.batch, o.length}, ids), mask = Tensor::full(source.shape(), 1, DType::u8);
  const auto decode = [=, last = o.length - 1](std::int64_t beam) {
    return [=](const InferenceTransformer& model) {
      beam_search(model, source, mask, {.beam = beam, .max_length_a = 0, .max_length_b = last, .min_length = last});
    };
  };
  return {[=](const InferenceTransformer& model) { model.encode(source, mask); }, decode(1), decode(o.beam)};
}

void measure(Variant& variant, std::size_t task, const Task& body, bool counts) {
  const std::size_t before = memory::statistics(Device::cpu).current;
  memory::reset_peak(Device::cpu);
  const auto start = std::chrono::steady_clock::now();
  body(*variant.inference);
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  if (counts) variant.milliseconds.at(task).push_back(taken.count());
  variant.room = std::max(variant.room, double(memory::statistics(Device::cpu).peak - before) / 1e6);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

int bench_infer(const BenchOptions& o) {
  FOLDGRAD_CHECK(o.dtype == "f32" || o.dtype == "bf16", "bench: dtype must be f32 or bf16, got {}", o.dtype);
  std::vector<Variant> all = variants(o);
  const std::vector<Task> bodies = tasks(o);
  for (Variant& c : all) c.milliseconds.resize(bodies.size());
  for (std::int64_t round = 0; round <= o.rounds; ++round)  // the first only warms up
    for (std::size_t task = 0; task < bodies.size(); ++task)
      for (Variant& c : all) measure(c, task, bodies[task], round > 0);

  const auto tokens = double(o.batch * o.length);
  fmt::print("{} sentences of {} tokens, {}, random weights, median of {} rounds in turn\n\n", o.batch, o.length,
             o.dtype, o.rounds);
  fmt::print("{:12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>10}\n", "normalizer", "encoder ms", "tokens/s", "greedy ms",
             "tokens/s", fmt::format("beam {} ms", o.beam), "tokens/s", "room MB");
  for (const Variant& c : all) {
    fmt::print("{:12}", c.name);
    for (const std::vector<double>& ms : c.milliseconds)
      fmt::print("{:12.2f}{:12.0f}", median(ms), 1e3 * tokens / median(ms));
    fmt::print("{:10.0f}\n", c.room);
  }
  return kExitOk;
}

}  // namespace

void add_bench_command(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand("bench", "Measure this machine");
  command->require_subcommand(1);
  CLI::App* infer = command->add_subcommand("infer", "Set inference with several normalizers side by side");
  const auto o = std::make_shared<BenchOptions>();
  const CLI::Range positive(std::int64_t(1), std::int64_t(1) << 20);
  infer->add_option("--batch", o->batch, "Sentences (default: 32)")->check(positive);
  infer->add_option("--length", o->length, "Tokens of each, and of its forced translation (default: 32)")
      ->check(positive);
  infer->add_option("--beam", o->beam, "Of beam search (default: 5)")->check(positive);
  infer->add_option("--rounds", o->rounds, "Of each measurement (default: 5)")->check(positive);
  infer->add_option("--dtype", o->dtype, "f32 or bf16 (default: f32)");
  infer->add_option("--width", o->config.width, "Of the model (default: 512, twice that in between)");
  infer->add_option("--layers", o->config.encoder_layers, "Of encoder and decoder (default: 6)");
  infer->callback([o, &exit_code] {
    o->config.ffn_width = 2 * o->config.width;
    o->config.decoder_layers = o->config.encoder_layers;
    exit_code = bench_infer(*o);
  });
}

}  // namespace foldgrad
