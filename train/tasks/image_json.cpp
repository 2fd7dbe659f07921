#include "train/tasks/image_json.h"

#include <fmt/format.h>

#include "models/images/model.h"

namespace foldgrad {

ExpectedParameters expected_parameters(const VitConfig& c) {
  ExpectedParameters all{{"patch_embed.proj.weight", {c.width, kImageChannels, c.patch, c.patch}},
                         {"pos_embed", {1, c.tokens(), c.width}},
                         {"head.weight", {c.classes, c.width}}};
  for (const std::int64_t layer : {std::int64_t(0), c.layers - 1})
    all.push_back({fmt::format("blocks.{}.mlp.fc1.weight", layer), {c.ffn_width, c.width}});
  return all;
}

}  // namespace foldgrad
