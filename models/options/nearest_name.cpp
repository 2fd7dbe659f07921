#include "models/options/nearest_name.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace foldgrad {
namespace {

// Names in other programs and papers, in lower case without - and _, and the name used here.
const std::multimap<std::string, std::string> kSynonyms = {
    // normalizers
    {"layernorm", "ln"},
    {"layernormalization", "ln"},
    {"batchnorm", "bn"},
    {"batchnormalization", "bn"},
    {"powernorm", "pn"},
    {"unifiednorm", "un"},
    {"unifiednormalization", "un"},
    {"movingaveragebatchnorm", "mabn"},
    {"regularizedbatchnorm", "rbn"},
    {"rms", "rmsnorm"},
    {"rmsnormalization", "rmsnorm"},
    {"gn", "groupnorm"},
    {"in", "instancenorm"},
    {"dynamictanh", "dyt"},
    {"identity", "none"},
    {"off", "none"},
    // keys of configurations
    {"dmodel", "width"},
    {"embeddim", "width"},
    {"hiddensize", "width"},
    {"dff", "ffn_width"},
    {"dimfeedforward", "ffn_width"},
    {"ffnembeddim", "ffn_width"},
    {"nhead", "heads"},
    {"numheads", "heads"},
    {"attentionheads", "heads"},
    {"layers", "encoder_layers"},
    {"numlayers", "encoder_layers"},
    {"numencoderlayers", "encoder_layers"},
    {"numdecoderlayers", "decoder_layers"},
    {"prenorm", "pre_norm"},
    {"normalizebefore", "pre_norm"},
    {"learningrate", "lr"},
    {"batchsize", "max_tokens"},
    {"epochs", "steps"},
    {"maxepoch", "steps"},
    {"maxsteps", "steps"},
    {"maxupdate", "steps"},
    {"numsteps", "steps"},
    {"updates", "steps"},
    {"warmupsteps", "warmup"},
    {"warmupupdates", "warmup"},
    {"updatefreq", "accumulate"},
    {"gradientaccumulationsteps", "accumulate"},
    {"clipnorm", "clip"},
    {"gradclip", "clip"},
    {"maxgradnorm", "clip"},
    {"lrscheduler", "schedule"},
    {"numbeams", "beam"},
    {"beamsize", "beam"},
    {"type", "name"},
    // options of normalizers, and of the command line
    {"epsilon", "eps"},
    {"momentum", "alpha"},
    {"numgroups", "groups"},
    {"output", "out"},
    {"outputdir", "out"},
    {"savedir", "out"},
    {"datadirectory", "data_dir"},
};

// The Levenshtein distance, with a swap of two neighbours counted as one edit.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1), last, before;
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

// "lr" of "train.lr" and "out" of "--out".
std::string last_part(const std::string& name) {
  const std::size_t dot = name.find_last_of('.');
  return name.substr(dot != std::string::npos ? dot + 1 : std::min(name.find_first_not_of('-'), name.size()));
}

std::string plain(const std::string& name) {
  std::string letters;
  for (char c : last_part(name))
    if (c != '_' && c != '-') letters += char(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return letters;
}

}  // namespace

std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates) {
  const std::string part = last_part(name);
  const auto [first, last] = kSynonyms.equal_range(plain(name));
  const auto best = [&](const auto& near) {
    std::string found;
    for (const std::string& candidate : candidates)
      if (near(last_part(candidate)) && (found.empty() || distance(name, candidate) < distance(name, found)))
        found = candidate;
    return found;
  };
  const std::string called = best([&](const std::string& c) {
    return std::any_of(first, last, [&](const auto& s) { return plain(s.second) == plain(c); });
  });
  if (!called.empty()) return called;
  const std::size_t most = std::max<std::size_t>(1, part.size() / 3);
  return best([&](const std::string& c) { return distance(part, c) <= most; });
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates, const std::string& quotes,
                         const std::string& otherwise) {
  const std::string nearest = nearest_name(name, candidates);
  return nearest.empty() ? otherwise : "; did you mean " + quotes + nearest + quotes + "?";
}

}  // namespace foldgrad
