#include "train/data/experiment_data.h"

#include <cstdlib>
#include <iterator>
#include <optional>
#include <sstream>

#include "train/data/bpe.h"

namespace foldgrad {
namespace {

using Lines = std::vector<std::string>;

std::vector<Lines> split(const Lines& lines, Bpe* bpe) {
  std::vector<Lines> words;
  for (const std::string& line : lines) {
    std::istringstream stream(bpe ? bpe->apply(line) : line);
    words.emplace_back(std::istream_iterator<std::string>(stream), std::istream_iterator<std::string>());
  }
  return words;
}

std::vector<Ids> encoded(const Dictionary& dictionary, const Lines& lines, Bpe* bpe) {
  std::vector<Ids> ids;
  for (const std::string& line : lines) ids.push_back(dictionary.encode(bpe ? bpe->apply(line) : line));
  return ids;
}

}  // namespace

std::string data_directory(const DataConfig& config, const std::string& flag) {
  if (!flag.empty()) return flag;
  if (!config.directory.empty()) return config.directory;
  const char* variable = std::getenv("FOLDGRAD_DATA");
  return variable ? variable : ".";
}

ExperimentData read_data(const ExperimentConfig& config, const std::string& directory) {
  const DataConfig& d = config.data;
  std::optional<Bpe> codes;
  if (!d.bpe_codes.empty()) codes.emplace(d.bpe_codes);
  Bpe* bpe = codes ? &*codes : nullptr;
  ExperimentData data;
  data.train.text = read_parallel_text(directory, d.train, d.source, d.target);
  data.valid.text = read_parallel_text(directory, d.valid, d.source, d.target);
  auto source = split(data.train.text.source, bpe), target = split(data.train.text.target, bpe);
  if (config.model.share_embeddings == "all") {
    source.insert(source.end(), target.begin(), target.end());
    target = source;
  }
  data.source = std::make_unique<Dictionary>(Dictionary::of_lines(source));
  data.target = std::make_unique<Dictionary>(Dictionary::of_lines(target));
  for (Corpus* corpus : {&data.train, &data.valid})
    corpus->pairs = {encoded(*data.source, corpus->text.source, bpe), encoded(*data.target, corpus->text.target, bpe)};
  return data;
}

}  // namespace foldgrad
