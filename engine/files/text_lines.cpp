#include "engine/files/text_lines.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "engine/files/file.h"

namespace foldgrad {

void read_lines_of(const std::string& path, const std::function<void(std::string& line, bool ended)>& take) {
  constexpr std::uint64_t kPart = 1 << 20, kLongestLine = 1 << 28;
  const InputFile file(path);
  std::string part, line;
  std::uint64_t number = 1;
  for (std::uint64_t offset = 0; offset < file.size(); offset += part.size()) {
    part.resize(std::min(kPart, file.size() - offset));
    file.read(offset, part.data(), part.size());
    for (std::size_t begin = 0; begin < part.size();) {
      const std::size_t end = std::min(part.find('\n', begin), part.size());
      if (const void* zero = std::memchr(&part[begin], 0, end - begin))
        throw FileError(path,
                        fmt::format("line {} must be text, got a zero byte at byte {} of the line", number,
                                    line.size() + std::size_t(static_cast<const char*>(zero) - &part[begin]) + 1));
      line.append(part, begin, end - begin);
      if (line.size() > kLongestLine)
        throw FileError(path, fmt::format("line {} must have at most {} bytes", number, kLongestLine));
      if (end < part.size()) take(line, true), line.clear(), ++number;
      begin = end + 1;
    }
  }
  if (!line.empty()) take(line, false);
}

}  // namespace foldgrad
