#include "train/tasks/classification_commands.h"

#include <algorithm>
#include <cmath>

#include "engine/check.h"
#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "models/fold/difference.h"
#include "train/checks/model_checks.h"
#include "train/system/digest.h"
#include "train/tasks/classification.h"

namespace foldgrad {

std::optional<ImageClasses> image_classes(const Model& model) {
  const auto config = model_json(model).value("model", nlohmann::ordered_json::object());
  if (!config.contains("image_size") || !config.contains("classes")) return std::nullopt;
  ImageClasses images{config.at("image_size"), config.value("class_names", std::vector<std::string>())};
  if (images.classes.empty())
    for (std::int64_t k = 0; k < config.at("classes").get<std::int64_t>(); ++k)
      images.classes.push_back(fmt::format("class {}", k));
  return images;
}

namespace {

NamedTensors read_inputs(const Model& model, const std::string& path) {
  const std::int64_t S = static_cast<const ImageModel&>(model).config().image_size;
  const NamedTensors tensors = read_safetensors(path).tensors;
  for (const auto& [name, tensor] : tensors)
    if (name != "images") throw FileError(path, fmt::format("must hold images alone, got {}", name));
  const auto found = tensors.find("images");
  if (found == tensors.end()) throw FileError(path, fmt::format("must have a tensor images [images, {}, {}, 3]", S, S));
  const Tensor& t = found->second;
  const bool known = t.dtype() == DType::u8 || t.dtype() == DType::f32 || t.dtype() == DType::f64;
  if (!known || t.size() == 0 || t.shape().rank() != 4 || t.shape() != Shape{t.shape()[0], S, S, kImageChannels})
    throw FileError(path, fmt::format("images must be u8, f32 or f64 [images, {}, {}, 3], got {}", S, S, describe(t)));
  if (const std::string bad = first_non_finite(t); !bad.empty())
    throw FileError(path, fmt::format("images must be finite, got {}", bad));
  return tensors;
}

Evaluation evaluate_classification(Model& model, const ModelData& data, const EvaluationOptions& options) {
  FOLDGRAD_CHECK(
      data.source.empty() && data.reference.empty() && options.hypotheses.empty(),
      "eval: --source, --reference and --hypotheses are of models that translate, got one of model.family \"{}\"",
      model.family());
  const ExperimentConfig config = data.read_config(model);
  const ImageModelConfig& sizes = static_cast<const ImageModel&>(model).config();
  ImageSplit split = read_split(config.images, data.data_root(config), data.split);
  const std::vector<std::string> classes = split.images.classes;
  FOLDGRAD_CHECK(split.images.height() == sizes.image_size && split.images.width() == sizes.image_size &&
                     std::int64_t(classes.size()) == sizes.classes,
                 "the model takes images of {0} x {0} pixels and {1} classes, got {2} x {3} and {4}", sizes.image_size,
                 sizes.classes, split.images.height(), split.images.width(), classes.size());
  ImageBatches batches(split.images, std::move(split.rows), {.size = config.images.batch, .training = false});
  ClassificationScores scores(classes);
  predict(model, batches, [&](const Tensor& logits, const ImageBatch& batch) { scores.add(logits, batch.labels); });
  const Validation v = scores.validation();
  if (options.non_finite == NonFinite::refuse && !std::isfinite(v.loss))
    throw NonFiniteError(fmt::format("eval: the loss on the split {} is not finite", data.split));
  nlohmann::ordered_json json{{"model", data.directory}, {"split", data.split}};
  for (const auto& [name, value] : v.scores) json[name] = value;
  json["text"] = v.text;
  json["samples"] = v.samples;
  return {fmt::format("{}: {}\n{}", data.split, v.text, v.samples), json};
}

ExampleSet examples(const Model& model, const ModelData& data) {
  FOLDGRAD_CHECK(data.source.empty() && data.reference.empty(),
                 "--source and --reference are of models that translate, got one of model.family \"{}\"",
                 model.family());
  const ExperimentConfig config = data.read_config(model);
  const auto split = std::make_shared<ClassificationData>(read_images(config.images, data.data_root(config)));
  const std::int64_t side = static_cast<const ImageModel&>(model).config().image_size;
  const ImageSet& images = split->valid;
  FOLDGRAD_CHECK(images.height() == side && images.width() == side,
                 "the model takes images of {} x {} pixels, got {} x {}", side, side, images.height(), images.width());
  const auto pixels = [split](const std::vector<std::int64_t>& examples) {
    const ImageSet& set = split->valid;
    Tensor chosen = Tensor::empty({std::int64_t(examples.size()), set.height(), set.width(), kColours}, DType::u8);
    auto* to = chosen.data<std::uint8_t>();
    for (const std::int64_t i : examples)
      to = std::copy_n(set.image(split->valid_rows[std::size_t(i)]), set.image_bytes(), to);
    return chosen;
  };
  return {.size = std::int64_t(split->valid_rows.size()),
          .inputs = [pixels](const auto& examples) -> NamedTensors {
            return {{"images", pixels(examples)}};
          },
          .digest =
              [pixels](const auto& examples) {
                const Tensor chosen = pixels(examples);
                return sha256({static_cast<const char*>(chosen.raw()), chosen.bytes()});
              }};
}

// At inference the other images of a batch change no logit of the first four; f64 on one device. Skipped for one image.
std::vector<CheckResult> check_classification(Model& model, Model&, const NamedTensors& inputs) {
  constexpr const char* kName = "other images of the batch change nothing";
  const Tensor& images = inputs.at("images");
  const std::int64_t some = std::min<std::int64_t>(images.shape()[0], 4);
  if (images.shape()[0] < 2) return {check_skipped(kName, "there is one image alone")};
  const Tensor together = inference_logits(model, inputs, DType::f64).slice(0, some), apart = together.clone();
  for (std::int64_t i = 0; i < some; ++i)
    apart.slice(i, i + 1).copy_from(inference_logits(model, {{"images", images.slice(i, i + 1)}}, DType::f64));
  return {check_same_logits(kName, apart, together, kSameInF64)};
}

}  // namespace

const TaskKind kClassification{
    .name = "classification",
    .check = [](const ExperimentConfig& config) { check_images(config.images); },
    .make = make_classification,
    .checks = check_classification,
    .read_inputs = read_inputs,
    .results = [](Model& model, const NamedTensors& inputs, const ForwardPass& pass) -> NamedTensors {
      return {{"logits", model.forward(inputs, pass).value()}};
    },
    .evaluate = evaluate_classification,
    .examples = examples};

}  // namespace foldgrad
