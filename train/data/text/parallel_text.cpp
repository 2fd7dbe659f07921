#include "train/data/text/parallel_text.h"

#include <fmt/core.h>

#include "engine/files/file.h"

namespace foldgrad {

ParallelText read_parallel_text(const std::string& source, const std::string& target) {
  ParallelText text{read_lines(source), read_lines(target)};
  if (text.source.size() != text.target.size())
    throw FileError(target, fmt::format("must have as many lines as {}, which has {}, got {}", source,
                                        text.source.size(), text.target.size()));
  if (text.source.empty()) throw FileError(source, "must have at least one line, got 0");
  return text;
}

ParallelText read_parallel_text(const std::string& directory, const std::string& name,
                                const std::string& source_language, const std::string& target_language) {
  const std::string stem = directory + "/" + name + ".";
  return read_parallel_text(stem + source_language, stem + target_language);
}

}  // namespace foldgrad
