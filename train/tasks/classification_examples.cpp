#include <cstring>

#include "engine/check.h"
#include "models/images/model.h"
#include "train/system/digest.h"
#include "train/tasks/classification_data.h"
#include "train/tasks/validation_examples.h"

namespace foldgrad {

ValidationExamples image_examples(const Model& model, const ExperimentConfig& config, const std::string& data_directory,
                                  const std::string&) {
  const auto data = std::make_shared<ClassificationData>(read_images(config.images, data_directory));
  const std::int64_t side = static_cast<const ImageModel&>(model).config().image_size;
  FOLDGRAD_CHECK(data->valid.height() == side && data->valid.width() == side,
                 "the model takes images of {} x {} pixels, got {} x {}", side, side, data->valid.height(),
                 data->valid.width());
  const auto pixels = [data](const std::vector<std::int64_t>& examples) {
    const ImageSet& set = data->valid;
    Tensor images = Tensor::empty({std::int64_t(examples.size()), set.height(), set.width(), kColours}, DType::u8);
    auto* to = images.data<std::uint8_t>();
    for (std::size_t i = 0; i < examples.size(); ++i)
      std::memcpy(to + std::int64_t(i) * set.image_bytes(), set.image(data->valid_rows[std::size_t(examples[i])]),
                  std::size_t(set.image_bytes()));
    return images;
  };
  return {.size = std::int64_t(data->valid_rows.size()),
          .inputs =
              [pixels](const auto& examples) {
                return NamedTensors{{"images", pixels(examples)}};
              },
          .digest =
              [pixels](const auto& examples) {
                const Tensor images = pixels(examples);
                return sha256({static_cast<const char*>(images.raw()), images.bytes()});
              }};
}

}  // namespace foldgrad
