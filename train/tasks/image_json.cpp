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

ExpectedParameters expected_parameters(const CctConfig& c) {
  const std::string last = std::to_string(c.convs - 1);
  const std::int64_t in = c.convs > 1 ? c.channels(c.convs - 2) : kImageChannels;
  ExpectedParameters all{{"tokenizer.conv_layers." + last + ".0.weight", {c.width, in, c.kernel, c.kernel}},
                         {"classifier.positional_emb", {1, c.tokens(), c.width}},
                         {"classifier.fc.weight", {c.classes, c.width}}};
  for (const std::int64_t layer : {std::int64_t(0), c.layers - 1})
    all.push_back({fmt::format("classifier.blocks.{}.linear1.weight", layer), {c.ffn_width, c.width}});
  return all;
}

}  // namespace foldgrad
