// Times image models: a training step (forward, backward, the norm of the gradient and AdamW) and inference, which is
// the forward pass without recording. Compares their products with the peak of fused multiply-adds, measured in the
// same run. Also times the augmentation of a batch for such a step.
//
//   vision_bench [Google Benchmark's flags]      MODEL/step/DTYPE, MODEL/infer/NORMALIZER/DTYPE, augment/NAMES
//   bench/pytorch_vision.py uses the same names.
#include "bench/machine.h"
#include "bench/model_benches.h"
#include "bench/training_step.h"
#include "models/cct/cct.h"
#include "models/convnext/convnext.h"
#include "models/nfnet/nfnet.h"
#include "models/swin/swin.h"
#include "models/t2t/t2t.h"
#include "models/vit/vit.h"
#include "train/loop/permutation.h"
#include "train/tasks/classification/batches.h"
#include "train/tasks/classification/images/shapes.h"

namespace foldgrad::bench {
namespace {

// ViT-S with patches of 4 x 4 and a class token, CCT-4/3x2, t2t-micro, swin-nano, convnext-micro, Swin-T, and
// nfnet-micro, whose training step has no normalizer.
struct Task {
  const char* name;
  std::int64_t batch, side;  // number of images, and their side in pixels
  double tokens;             // tokens of one image; 0 if the step's floor is unknown
  double multiply_adds;      // in the products of one image's forward pass
  double pooled;             // elements per image that convolutions pass to pooling
  std::unique_ptr<Model> (*make)(const std::string& normalizer);
  const char* norm = "ln";  // normalizer of the training step
};

double block_multiply_adds(const TokenModelConfig& c, double tokens) {
  const double d = double(c.width), m = double(c.ffn_width);
  return double(c.layers) * tokens * (4 * d * d + 2 * d * m + 2 * tokens * d);
}

template <class Config>
Config config_of(const std::string& normalizer) {
  Config config;
  config.classes = 10;
  config.normalizer = normalizer;
  return config;
}

SwinConfig swin_nano(const std::string& normalizer) {
  SwinConfig config = config_of<SwinConfig>(normalizer);
  config.image_size = 32, config.patch = 2, config.window = 4, config.depths = {2, 2, 2};
  config.width = 48, config.ffn_width = 192;
  return config;
}

T2tConfig t2t_micro(const std::string& normalizer) {
  T2tConfig config = config_of<T2tConfig>(normalizer);
  config.kernels = {7, 3, 3}, config.strides = {2, 2, 1}, config.paddings = {3, 1, 1}, config.token_dropout = 0;
  config.width = 192, config.ffn_width = 384, config.heads = 3, config.layers = 6;
  return config;
}

ConvNextConfig convnext_micro(const std::string& normalizer) {
  ConvNextConfig config = config_of<ConvNextConfig>(normalizer);
  config.channels = {48, 96, 192}, config.depths = {2, 2, 2};
  return config;
}

// nfnet-micro with timm's activation, gelu. Weights are standardized only if there is no normalizer.
NfNetConfig nfnet_micro(const std::string& normalizer) {
  NfNetConfig config = config_of<NfNetConfig>(normalizer);
  config.channels = {64, 128, 384, 384}, config.depths = {1, 1, 2, 1}, config.group_size = 32, config.stem_stride = 1;
  config.activation = "gelu";
  if (normalizer != "none") config.standardization = "none";
  return config;
}

// The tests of T2T-ViT, Swin, ConvNeXt and NFNet in tests/models/ check the multiply_adds of the last five tasks.
std::vector<Task> tasks() {
  const VitConfig vit = config_of<VitConfig>("ln");
  const CctConfig cct = config_of<CctConfig>("ln");
  const double patches = 64 * 48.0 * double(vit.width);
  const double convolutions = 32 * 32 * 9 * 3 * 64.0 + 16 * 16 * 9 * 64 * double(cct.width);
  return {
      {"vit_s4", 64, 32, double(vit.tokens()), patches + block_multiply_adds(vit, double(vit.tokens())), /*pooled=*/0,
       [](const std::string& n) -> std::unique_ptr<Model> {
         return std::make_unique<Vit>(config_of<VitConfig>(n), /*seed=*/1);
       }},
      {"cct4_3x2", 128, 32, double(cct.tokens()), convolutions + block_multiply_adds(cct, double(cct.tokens())),
       32 * 32 * 64.0 + 16 * 16 * double(cct.width),
       [](const std::string& n) -> std::unique_ptr<Model> {
         return std::make_unique<Cct>(config_of<CctConfig>(n), /*seed=*/1);
       }},
      {"t2t_micro", 128, 32, /*tokens=*/0, 152686720, /*pooled=*/0,
       [](const std::string& n) -> std::unique_ptr<Model> { return std::make_unique<T2t>(t2t_micro(n), /*seed=*/1); }},
      {"swin_nano", 128, 32, /*tokens=*/0, 46352256, /*pooled=*/0,
       [](const std::string& n) -> std::unique_ptr<Model> { return std::make_unique<Swin>(swin_nano(n), /*seed=*/1); }},
      {"convnext_micro", 128, 32, /*tokens=*/0, 32927616, /*pooled=*/0,
       [](const std::string& n) -> std::unique_ptr<Model> {
         return std::make_unique<ConvNext>(convnext_micro(n), /*seed=*/1);
       }},
      {"swin_t", 32, 224, /*tokens=*/0, 4489806336, /*pooled=*/0,
       [](const std::string& n) -> std::unique_ptr<Model> {
         return std::make_unique<Swin>(config_of<SwinConfig>(n), /*seed=*/1);
       }},
      {"nfnet_micro", 128, 32, /*tokens=*/0, 26875392, /*pooled=*/0,
       [](const std::string& n) -> std::unique_ptr<Model> {
         return std::make_unique<NfNet>(nfnet_micro(n), /*seed=*/1);
       },
       "none"}};
}

NamedTensors make_batch(const Task& task) {
  NamedTensors batch{{"images", Tensor::empty({task.batch, task.side, task.side, 3}, DType::u8)},
                     {"target", Tensor::empty({task.batch}, DType::i64)}};
  Tensor &images = batch.at("images"), &target = batch.at("target");
  Draws draw;
  for (std::int64_t i = 0; i < images.size(); ++i) images.data<std::uint8_t>()[i] = std::uint8_t(draw() >> 24);
  for (std::int64_t i = 0; i < target.size(); ++i) target.data<std::int64_t>()[i] = (draw() >> 24) % 10;
  return batch;
}

void count(benchmark::State& state, const Task& task, double flops) {
  state.counters["images/s"] = rate(double(task.batch));
  state.counters["of_peak_%"] = rate(100 * flops / cpu_limits().fma);
}

StepWork step_work(const Task& task, const Model& model) {
  StepWork work{.flops = 6 * task.multiply_adds * double(task.batch)};
  if (task.tokens == 0) return work;
  const auto& c = dynamic_cast<const TokenModel&>(model).config();
  const double tokens = double(task.batch) * task.tokens;
  for (std::int64_t k = 0; k < c.layers; ++k)
    work.add_layer(/*attentions=*/1, tokens * double(c.width), tokens * double(c.ffn_width));
  work.add_ends(tokens * double(c.width), double(task.batch * c.classes), model.parameter_count());
  // The backward pass of relu moves dy, y and dz; pooling moves x, y and positions, and backward dy, positions and dx.
  constexpr double kReluAndPool = 5.625;
  work.elements += kReluAndPool * task.pooled * double(task.batch);
  return work;
}

void train(benchmark::State& state, const Task& task, DType dtype) {
  std::unique_ptr<Model> model = task.make(task.norm);
  const StepWork work = step_work(task, *model);
  TrainingStep step(std::move(model), make_batch(task), task.batch, AdamW(), dtype);
  for (auto _ : state) step();
  count(state, task, work.flops);
  if (dtype == DType::f32 && task.tokens > 0) state.counters["of_floor_%"] = rate(100 * work.floor());
}

void infer(benchmark::State& state, const Task& task, const std::string& normalizer, DType dtype) {
  const std::unique_ptr<Model> model = model_with(normalizer, task.make)->copy(dtype, Device::cpu);
  const NamedTensors batch = make_batch(task);
  Tape tape(/*recording=*/false);
  const auto logits = [&] {
    benchmark::DoNotOptimize(model->forward(batch, {.tape = tape, .dtype = dtype}).value().raw());
    tape.clear();
  };
  logits();
  for (auto _ : state) logits();
  count(state, task, 2 * task.multiply_adds * double(task.batch));
}

// Makes batches of 128 on one thread, as prefetching does during a step.
void augment_batch(benchmark::State& state, const std::vector<std::string>& names) {
  ImageBatches batches(shapes::sample(ImagePart::train, 1024, /*seed=*/1), counting(1024),
                       {.augmentation = augmentation(names)});
  for (auto _ : state) benchmark::DoNotOptimize(batches.next().images.raw());
  state.counters["images/s"] = rate(double(ImageBatchOptions().size));
}

int register_all(int&, char**) {
  describe_machine(Device::cpu);
  const std::vector<std::string> cifar = {"crop4", "flip_alternating", "cutout8"}, drawn = {"crop4", "randaugment2m9"};
  add("augment/crop4+flip_alternating+cutout8", augment_batch, cifar);
  add("augment/crop4+randaugment2m9", augment_batch, drawn);
  for (const Task& task : tasks())
    for (DType dtype : {DType::f32, DType::bf16}) {
      add(fmt::format("{}/step/{}", task.name, name(dtype)), train, task, dtype);
      for (const char* normalizer : {"ln", "none", "un", "un_folded"})
        add(fmt::format("{}/infer/{}/{}", task.name, normalizer, name(dtype)), infer, task, normalizer, dtype);
    }
  return 0;
}

}  // namespace
}  // namespace foldgrad::bench

int main(int argc, char** argv) {
  return foldgrad::bench::run_program("vision_bench", argc, argv, foldgrad::bench::register_all);
}
