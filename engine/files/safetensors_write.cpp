#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "engine/files/atomic_file.h"
#include "engine/files/safetensors.h"
#include "engine/files/safetensors_header.h"

namespace foldgrad {
namespace {

using namespace safetensors;
using Metadata = std::map<std::string, std::string>;

struct Plan {
  std::vector<const NamedTensors::value_type*> order;  // tensors in the order in which they are written
  Metadata metadata;
};

Plan make_plan(const NamedTensors& tensors, const Metadata& metadata) {
  Plan plan{{}, metadata};
  for (const auto& [key, value] : metadata) {
    FOLDGRAD_CHECK(!key.starts_with(kAliasPrefix), "safetensors: a metadata key must not begin with \"alias.\", got {}",
                   quote(key));
    FOLDGRAD_CHECK(key != "format" || value == "pt", "safetensors: the metadata format must be pt, got {}",
                   quote(value));
  }
  plan.metadata["format"] = "pt";

  std::map<std::tuple<const void*, DType, std::vector<std::int64_t>>, std::string> written;
  for (const auto& item : tensors) {
    const auto& [name, tensor] = item;
    FOLDGRAD_CHECK(!name.empty() && name != kMetadata, "safetensors: a tensor must not be named {}", quote(name));
    FOLDGRAD_CHECK(tensor.defined(), "safetensors: tensor {} must be defined", quote(name));
    const auto [other, is_new] = written.try_emplace({tensor.raw(), tensor.dtype(), tensor.shape().sizes()}, name);
    if (is_new || !tensor.shares_storage_with(tensors.at(other->second)))
      plan.order.push_back(&item);
    else
      plan.metadata[std::string(kAliasPrefix) + name] = other->second;
  }
  // The map is sorted by name, and the sort is stable, so tensors with the same element size stay sorted by name.
  std::ranges::stable_sort(plan.order, std::greater(), [](auto* item) { return size_of(item->second.dtype()); });
  return plan;
}

std::string header_of(const Plan& plan) {
  for (const auto& [key, value] : plan.metadata)
    for (const std::string* text : {&key, &value}) require_utf8(*text, "metadata");
  nlohmann::ordered_json::object_t header{{std::string(kMetadata), plan.metadata}};
  std::size_t offset = 0;
  for (const auto* item : plan.order) {
    const auto& [name, tensor] = *item;
    require_utf8(name, "a name");
    // Names are unique, so we append: header[name] would compare each name with all earlier ones.
    header.emplace_back(name, nlohmann::ordered_json{{"dtype", format_name(tensor.dtype())},
                                                     {"shape", tensor.shape().sizes()},
                                                     {"data_offsets", {offset, offset + tensor.bytes()}}});
    offset += tensor.bytes();
  }
  std::string text = nlohmann::ordered_json(std::move(header)).dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  FOLDGRAD_CHECK(text.size() <= kMaxHeaderBytes, "safetensors: the header must have at most {} bytes, got {}",
                 kMaxHeaderBytes, text.size());
  return text;
}

}  // namespace

void write_safetensors(const std::string& path, const NamedTensors& tensors, const Metadata& metadata) {
  const Plan plan = make_plan(tensors, metadata);
  const std::string header = header_of(plan);
  const std::uint64_t length = header.size();
  AtomicFile file(path);
  file.write(&length, kLengthBytes);
  file.write(header);
  for (const auto* item : plan.order) {
    const Tensor host = item->second.to(Device::cpu);
    file.write(host.raw(), host.bytes());
  }
  file.commit();
}

}  // namespace foldgrad
