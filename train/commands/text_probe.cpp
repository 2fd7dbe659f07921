#include "train/commands/text_probe.h"

#include <fmt/format.h>

#include "engine/files/file.h"
#include "models/transformer/batch.h"
#include "train/checkpoints/model_directory.h"
#include "train/data/text/parallel_text.h"
#include "train/data/text/vocabulary.h"

namespace foldgrad {

constexpr std::size_t kMostLines = 64;

Probe text_probe(const std::string& source, const std::string& target, const std::string& path,
                 const TransformerConfig& config) {
  const std::vector<std::string> from = read_lines(source), to = read_lines(target);
  if (from.size() != to.size() || from.empty())
    throw FileError(target, fmt::format("must have as many lines as {}, {}, and at least one, got {}", source,
                                        from.size(), to.size()));
  const Vocabulary vocabulary = Vocabulary::load(find_model_directory(path) + "/vocabulary");
  const auto most = std::size_t(config.max_positions);
  std::vector<Ids> sources, targets;
  for (std::size_t i = 0; i < from.size() && sources.size() < kMostLines; ++i) {
    const Ids a = vocabulary.encode_source(from[i]), b = vocabulary.encode_target(to[i]);
    if (a.size() > most || b.size() > most) continue;
    sources.push_back(a), targets.push_back(b);
  }
  if (sources.empty()) throw FileError(source, fmt::format("has no line of at most {} tokens", most));
  return make_probe(make_batch(sources, targets, config.pad).named(),
                    fmt::format("the first {} lines of {} and {}", sources.size(), source, target));
}

}  // namespace foldgrad
