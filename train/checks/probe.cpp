#include "train/checks/probe.h"

#include <algorithm>
#include <random>

#include "engine/files/file.h"
#include "train/checkpoints/model_directory.h"
#include "train/data/text/parallel_text.h"
#include "train/data/text/vocabulary.h"
#include "train/system/digest.h"

namespace foldgrad {
namespace {

constexpr std::size_t kMostLines = 64;

struct Padded {
  Tensor ids, mask;
};

Padded padded(const std::vector<Ids>& rows, std::int64_t pad) {
  std::size_t columns = 1;
  for (const Ids& row : rows) columns = std::max(columns, row.size());
  const Shape shape({std::int64_t(rows.size()), std::int64_t(columns)});
  const Padded p{Tensor::full(shape, double(pad), DType::i64), Tensor::zeros(shape, DType::u8)};
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::copy(rows[r].begin(), rows[r].end(), p.ids.data<std::int64_t>() + r * columns);
    std::fill_n(p.mask.data<std::uint8_t>() + r * columns, rows[r].size(), std::uint8_t(1));
  }
  return p;
}

Probe probe_of(const std::vector<Ids>& sources, const std::vector<Ids>& targets, std::int64_t pad,
               std::string description) {
  Probe probe{make_batch(sources, targets, pad), std::move(description), ""};
  std::string bytes;
  for (const std::vector<Ids>* side : {&sources, &targets})
    for (const Ids& ids : *side) {
      for (std::int64_t id : ids) bytes += std::to_string(id) + " ";
      bytes += "\n";
    }
  probe.digest = sha256(bytes);
  return probe;
}

}  // namespace

TranslationBatch make_batch(const std::vector<Ids>& sources, const std::vector<Ids>& targets, std::int64_t pad) {
  std::vector<Ids> inputs = targets;
  for (Ids& ids : inputs) {
    ids.insert(ids.begin(), kEos);
    ids.pop_back();
  }
  const Padded source = padded(sources, pad), input = padded(inputs, pad), target = padded(targets, pad);
  return {source.ids, source.mask, input.ids, input.mask, target.ids};
}

Probe random_probe(const TransformerConfig& config, std::uint64_t seed, int sentences, int tokens) {
  std::mt19937_64 random(seed);
  const std::int64_t most = std::clamp<std::int64_t>(config.max_positions - 2, 1, tokens);
  const auto side = [&](std::int64_t vocabulary) {
    std::vector<Ids> rows;
    for (int s = 0; s < sentences; ++s) {
      Ids ids(1 + random() % std::uint64_t(most));
      // All but padding, by counting on from it.
      for (auto& id : ids)
        id =
            vocabulary < 2 ? 0 : (config.pad + 1 + std::int64_t(random() % std::uint64_t(vocabulary - 1))) % vocabulary;
      rows.push_back(std::move(ids));
    }
    return rows;
  };
  const auto sources = side(config.source_vocabulary), targets = side(config.target_vocabulary);
  return probe_of(sources, targets, config.pad, fmt::format("{} sentences of random ids, seed {}", sentences, seed));
}

Probe text_probe(const std::string& source, const std::string& target, const std::string& path,
                 const TransformerConfig& config) {
  const std::vector<std::string> from = read_lines(source), to = read_lines(target);
  if (from.size() != to.size() || from.empty())
    throw FileError(target, fmt::format("must have as many lines as {}, {}, and one at least, got {}", source,
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
  return probe_of(sources, targets, config.pad,
                  fmt::format("the first {} lines of {} and {}", sources.size(), source, target));
}

}  // namespace foldgrad
