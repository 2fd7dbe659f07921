// The row of a family whose models tell images apart.
#pragma once
#include "train/tasks/classification.h"
#include "train/tasks/classification_checks.h"
#include "train/tasks/classification_inputs.h"
#include "train/tasks/families.h"
#include "train/tasks/image_json.h"

namespace foldgrad {

// `M` derives from ImageModel. Its configuration M::Config has keys (kFamilyKeys), visit_model_keys(),
// expected_parameters() and smallest_image().
template <class M>
std::unique_ptr<Model> smallest_image_model(const ExperimentConfig& experiment) {
  check_images(experiment.images);
  auto config = model_keys<typename M::Config>(experiment);
  config.image_size = config.smallest_image(), config.classes = 2;  // the smallest: the data decide
  config.validate();
  config.layers = 1;
  return std::make_unique<M>(config, std::nullopt);
}

template <class M>
std::unique_ptr<Task> make_image_task(const ExperimentConfig& experiment, const std::string& data_directory,
                                      const std::string&, Device device) {
  const ClassificationData data = read_images(experiment.images, data_directory);
  auto config = model_keys<typename M::Config>(experiment);
  set_images(config, data.train);
  return make_classification(experiment, data,
                             std::make_unique<M>(config, std::uint64_t(experiment.train.seed), DType::f32, device));
}

template <class M>
Family image_family(const char* name) {
  using Config = typename M::Config;
  return {
      .name = name,
      .config_json = [](const Model& model) { return image_json(static_cast<const M&>(model).config()); },
      .make_model = [](const nlohmann::json& config, DType dtype, Device device) -> std::unique_ptr<Model> {
        return std::make_unique<M>(parse_image_json<Config>(config), std::nullopt, dtype, device);
      },
      .expected_parameters =
          [](const nlohmann::json& config) { return expected_parameters(parse_image_json<Config>(config)); },
      .checks = [](Model& model, Model&,
                   const NamedTensors& inputs) { return std::vector<CheckResult>{check_other_images(model, inputs)}; },
      .read_inputs = read_image_inputs,
      .results = classification_results,
      .evaluate = evaluate_classification,
      .validation_examples = image_examples,
      .write_onnx = [](Model& model, const std::string& to) { return write_onnx(static_cast<M&>(model), to); },
      .smallest_model = smallest_image_model<M>,
      .make_task = make_image_task<M>};
}

}  // namespace foldgrad
