#include "train/data/text/parallel_text.h"

#include <fmt/core.h>

#include "engine/files/file.h"

namespace foldgrad {

ParallelText read_parallel_text(const std::string& directory, const std::string& name,
                                const std::string& source_language, const std::string& target_language) {
  const std::string stem = directory + "/" + name + ".";
  const std::string source_path = stem + source_language, target_path = stem + target_language;
  ParallelText text{read_lines(source_path), read_lines(target_path)};
  if (text.source.size() != text.target.size())
    throw FileError(target_path, fmt::format("must have as many lines as {}, which has {}, got {}", source_path,
                                             text.source.size(), text.target.size()));
  if (text.source.empty()) throw FileError(source_path, "must have at least one line, got 0");
  return text;
}

}  // namespace foldgrad
