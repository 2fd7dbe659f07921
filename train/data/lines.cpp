#include "train/data/lines.h"

#include <fmt/core.h>

#include <string_view>

#include "engine/files/file.h"
#include "train/system/unicode.h"

namespace foldgrad {
namespace {

// Some editors begin UTF-8 with it; it would become part of the first word.
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

std::vector<std::string> read_lines(const std::string& path) {
  const std::string text = read_file(path);
  std::vector<std::string> lines;
  for (std::size_t begin = text.rfind(kByteOrderMark, 0) == 0 ? kByteOrderMark.size() : 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line(text.data() + begin, end - begin);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (const std::size_t bad = first_bad_utf8(line); bad != line.npos)
      throw FileError(path, fmt::format("line {} must be UTF-8, got byte {:#04x} as its byte {}", lines.size() + 1,
                                        unsigned(static_cast<unsigned char>(line[bad])), bad + 1));
    lines.emplace_back(line);
    begin = end + 1;
  }
  return lines;
}

}  // namespace foldgrad
