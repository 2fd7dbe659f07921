#include "train/commands/images_given.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "train/data/images/cifar.h"
#include "train/data/images/picture.h"

namespace foldgrad {
namespace {

// "a.bin:7" is record 7 of a.bin, unless there is a file of that name.
struct Records {
  std::string path;
  std::int64_t only = -1;  // -1: all
};

Records records_of(const std::string& argument) {
  const std::size_t colon = argument.rfind(':');
  std::error_code ignored;
  if (colon == argument.npos || std::filesystem::exists(argument, ignored)) return {argument};
  std::int64_t record = -1;
  const char *begin = argument.data() + colon + 1, *end = argument.data() + argument.size();
  const auto [rest, error] = std::from_chars(begin, end, record);
  if (error != std::errc() || rest != end || record < 0) return {argument};
  return {argument.substr(0, colon), record};
}

}  // namespace

void for_each_image(const std::string& argument, std::int64_t size, const std::vector<std::string>& classes,
                    const std::function<void(GivenImage)>& take) {
  const auto [path, only] = records_of(argument);
  if (!path.ends_with(".bin")) {
    take({argument, "", square(read_picture(argument), size).pixels});
    return;
  }
  const CifarFile file(path, cifar_label_bytes(path));
  if (only >= file.size())
    throw FileError(path, fmt::format("has {} records, counted from 0: there is no record {}", file.size(), only));
  for (std::int64_t r = std::max<std::int64_t>(only, 0); r < (only < 0 ? file.size() : only + 1); ++r) {
    Picture picture{kCifarSide, kCifarSide, std::vector<std::uint8_t>(kCifarSide * kCifarSide * kColours)};
    const std::int64_t label = file.read(r, std::int64_t(classes.size()), picture.pixels.data());
    take({fmt::format("{}:{}", path, r), classes[label], square(picture, size).pixels});
  }
}

}  // namespace foldgrad
