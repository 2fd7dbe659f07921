#include "train/tasks/classification/images/info.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "engine/files/file.h"
#include "train/tasks/classification/images/cifar.h"

namespace foldgrad {
namespace {

FolderCounts count_cifar(const std::string& directory, const CifarLayout& layout, ImagePart part) {
  const ImageSet images = read_cifar(directory, layout, part);
  FolderCounts counts{images.classes, std::vector<std::int64_t>(images.classes.size()), ""};
  for (std::int64_t i = 0; i < images.size(); ++i) ++counts.images[std::size_t(images.label(i))];
  return counts;
}

bool has_folders(const std::string& directory) {
  return std::filesystem::is_directory(directory) &&
         std::ranges::any_of(paths_in(directory), [](const auto& path) { return std::filesystem::is_directory(path); });
}

}  // namespace

std::vector<std::pair<std::string, FolderCounts>> count_images(const std::string& directory) {
  const CifarLayout* layout = nullptr;
  for (const CifarLayout* known : {&cifar10_layout(), &cifar100_layout()})
    if (file_exists(directory + "/" + known->train[0])) layout = known;
  std::vector<std::pair<std::string, FolderCounts>> parts;
  if (file_exists(directory + "/val/val_annotations.txt")) {
    for (const auto& [name, part] : {std::pair("train", ImagePart::train), {"val", ImagePart::test}})
      parts.emplace_back(name, count_folder(directory, part, FolderLayout::tiny_imagenet));
    return parts;
  }
  for (const auto& [name, part] : {std::pair("train", ImagePart::train), {"test", ImagePart::test}}) {
    if (layout) parts.emplace_back(name, count_cifar(directory, *layout, part));
    if (!layout && has_folders(directory + "/" + name)) parts.emplace_back(name, count_folder(directory, part));
  }
  return parts;
}

std::string table_of(const std::vector<std::pair<std::string, FolderCounts>>& parts) {
  constexpr const char* kLine = "{:<6} {:>9} {:>8} {:>7} {:>7}\n";
  std::string text = fmt::format(fmt::runtime(kLine), "part", "images", "classes", "fewest", "most"), left_out;
  for (const auto& [name, counts] : parts) {
    const auto [fewest, most] = std::ranges::minmax(counts.images);
    text += fmt::format(fmt::runtime(kLine), name, std::reduce(counts.images.begin(), counts.images.end()),
                        counts.classes.size(), fewest, most);
    if (!counts.left_out.empty()) left_out += fmt::format("{}: files left out: {}\n", name, counts.left_out);
  }
  return text + left_out;
}

}  // namespace foldgrad
