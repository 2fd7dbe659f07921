// foldgrad recalibrate: recomputes running statistics with fixed weights.
#include "train/checkpoints/model_directory.h"
#include "train/commands/command.h"
#include "train/system/device.h"
#include "train/tasks/families.h"

namespace foldgrad {
namespace {

struct RecalibrateOptions {
  std::string model, output, device = "auto";
  ModelData data;
  std::int64_t batches = 0, max_tokens = 4096, seed = 1;
};

Answer recalibrate(const RecalibrateOptions& o) {
  const auto model = load_model(o.model, DType::f32, require_device(o.device));
  const auto normalizers = model->normalizers();
  FOLDGRAD_CHECK(!model->state().empty(), "recalibrate: {} has no running statistics: its normalizer is {}", o.model,
                 normalizers.empty() ? "none" : normalizers[0]->info().name);
  const TrainingInputs inputs = training_inputs(*model, located(o.data, o.model), o.max_tokens, std::uint64_t(o.seed));
  const std::int64_t count = o.batches ? o.batches : inputs.per_epoch;
  FOLDGRAD_CHECK(count > 0,
                 "recalibrate: --batches must be above 0 for models of family \"{}\", whose examples "
                 "have no epochs",
                 model->family());
  for (std::int64_t i = 0; i < count; ++i) {
    Tape tape(/*recording=*/false);
    model->forward(inputs.next(), {.tape = tape, .dtype = DType::f32, .training = true, .without_dropout = true});
  }
  const std::string directory = find_model_directory(o.model);
  write_model_directory(o.output, *model, directory + "/vocabulary");
  return {fmt::format("{}: recomputed the statistics of {} over {} batches\n", o.output, directory, count)};
}

}  // namespace

Action add_recalibrate(CLI::App& command) {
  const auto o = std::make_shared<RecalibrateOptions>();
  add_model_option(command, o->model, "; a translation model must have its vocabulary");
  command.add_option("-o,--out,--output", o->output, "Directory to create for the new model")->required();
  add_data_options(command, o->data, "train");
  add_number(command, "--batches", o->batches, 0, 1000000000,
             "Number of batches; 0 means one pass through all batches");
  add_max_tokens_option(command, o->max_tokens);
  command.add_option("--seed", o->seed, "Seed for the order of the batches")->capture_default_str();
  add_device_option(command, o->device);
  command.footer(
      "Exit codes: 0 success, 2 usage error, 3 text or images cannot be read or the output cannot be written, 4 the "
      "model cannot be loaded, 5 a number is not finite, 6 device error.");
  return [o] { return recalibrate(*o); };
}

}  // namespace foldgrad
