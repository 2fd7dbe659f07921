#include "train/tasks/translation/data.h"

#include <algorithm>
#include <filesystem>

#include "engine/check.h"
#include "engine/files/file.h"
#include "train/data/data_sets.h"
#include "train/system/digest.h"
#include "train/system/unicode.h"
#include "train/tasks/translation/numbers.h"

namespace foldgrad {
namespace {

ParallelText read_numbers(const DataConfig& config, const std::string& name) {
  if (name == config.train)
    return numbers::sample(numbers::Split::train, config.train_pairs ? config.train_pairs : numbers::kTrainPairs);
  FOLDGRAD_CHECK(name == config.valid || name == config.test,
                 "the split must be train, valid or test with data.task = \"numbers\", got {}", name);
  const auto pairs = config.valid_pairs ? config.valid_pairs : numbers::kTestPairs;
  return numbers::sample(name == config.valid ? numbers::Split::valid : numbers::Split::test, pairs);
}

std::string path_in(const std::string& directory, const std::string& name) {
  return std::filesystem::path(directory) / name;  // an absolute name stays unchanged
}

SentencePiece learned_pieces(const DataConfig& d, const std::string& directory, const ParallelText& train) try {
  Lines both = train.source;
  both.insert(both.end(), train.target.begin(), train.target.end());
  return SentencePiece::train(both, d.vocabulary);
} catch (const std::invalid_argument& e) {
  throw FileError(
      path_in(directory, d.train),
      fmt::format("data.tokenizer = \"sentencepiece\" with data.vocabulary = {}: {}", d.vocabulary, e.what()));
}

Vocabulary make_vocabulary(const ExperimentConfig& config, const std::string& directory, const ParallelText& train) {
  const auto& d = config.data.as<DataConfig>();
  if (d.task == TextTask::numbers) return Vocabulary::numbers();
  if (d.tokenizer == Tokenizer::sentencepiece)
    return Vocabulary::sentence_piece(d.sentencepiece_model.empty()
                                          ? learned_pieces(d, directory, train)
                                          : SentencePiece::read(path_in(directory, d.sentencepiece_model)),
                                      d.lowercase);
  std::optional<Bpe> bpe;
  if (!d.bpe_codes.empty()) bpe.emplace(path_in(directory, d.bpe_codes));
  const auto dictionary = [&](const std::string& file, const Lines& lines) {
    if (!file.empty()) return Dictionary::read(path_in(directory, file));
    if (!bpe) return Dictionary::of_lines(lines);  // in fairseq's order
    Lines pieces;
    for (const std::string& line : lines) pieces.push_back(bpe->apply(line));
    return Dictionary::of_lines(pieces);
  };
  Dictionary source = dictionary(d.source_dictionary, train.source),
             target = dictionary(d.target_dictionary, train.target);
  const bool is_one_file = !d.source_dictionary.empty() && d.source_dictionary == d.target_dictionary;
  if (config.model.as<TransformerConfig>().one_input_table() && !is_one_file)
    source = target = Dictionary::joined(source, target);
  return bpe ? Vocabulary::bpe(std::move(*bpe), std::move(source), std::move(target), d.lowercase)
             : Vocabulary::words(std::move(source), std::move(target), d.lowercase);
}

bool is_left_out(const DataConfig& d, const Ids& source, const Ids& target) {
  const auto [shorter, longer] = std::minmax({double(source.size()), double(target.size())});
  return (d.max_length != 0 && longer > double(d.max_length)) || (d.max_ratio != 0 && longer > d.max_ratio * shorter);
}

// Throws FileError for a sentence that does not fit into a batch or into the model, unless `cleaned` is true and
// clean() drops it.
void require_room(const EncodedPairs& pairs, const ExperimentConfig& config, const std::string& directory,
                  const std::string& name, bool cleaned) {
  const auto& d = config.data.as<DataConfig>();
  const std::int64_t most = std::min(d.max_tokens, config.model.as<TransformerConfig>().max_positions);
  for (const auto& [language, side] : {std::pair(d.source, &pairs.source), std::pair(d.target, &pairs.target)})
    for (std::size_t i = 0; i < side->size(); ++i) {
      if (std::int64_t((*side)[i].size()) <= most) continue;
      if (cleaned && is_left_out(d, pairs.source[i], pairs.target[i])) continue;
      throw FileError(
          path_in(directory, name + "." + language),
          fmt::format(
              "line {} has {} tokens, including the end token, but {} = {}; raise the limit, or leave out the pair{}",
              i + 1, (*side)[i].size(), most == d.max_tokens ? "train.max_tokens" : "model.max_positions", most,
              cleaned ? " with data.max_length" : ""));
    }
}

// Leaves out pairs that are too long or whose lengths differ too much.
void clean(Corpus& corpus, const DataConfig& d, const std::string& directory) {
  Corpus kept;
  for (std::size_t i = 0; i < corpus.text.source.size(); ++i) {
    Ids &source = corpus.pairs.source[i], &target = corpus.pairs.target[i];
    if (is_left_out(d, source, target)) continue;
    kept.text.source.push_back(std::move(corpus.text.source[i]));
    kept.text.target.push_back(std::move(corpus.text.target[i]));
    kept.pairs.source.push_back(std::move(source));
    kept.pairs.target.push_back(std::move(target));
  }
  if (kept.pairs.source.empty())
    throw FileError(
        path_in(directory, d.train),
        fmt::format("no pair satisfies data.max_length = {} and data.max_ratio = {}", d.max_length, d.max_ratio));
  corpus = std::move(kept);
}

std::map<std::string, std::string> digests_of(const DataConfig& d, const std::string& directory) {
  std::map<std::string, std::string> digests;
  if (d.task == TextTask::numbers) return digests;
  for (const std::string& split : {d.train, d.valid})
    for (const std::string& language : {d.source, d.target}) {
      const std::string name = split + "." + language;
      digests[name] = sha256_of_file(path_in(directory, name));
    }
  // A resumed run gets its vocabulary from the checkpoint, so nothing has read these files yet. A sparse file would
  // take hours to digest; read_file() rejects it because of its size.
  for (const std::string& name : {d.bpe_codes, d.source_dictionary, d.target_dictionary, d.sentencepiece_model})
    if (!name.empty()) digests[name] = sha256(read_file(path_in(directory, name)));
  return digests;
}

// Throws FileError unless the pair `name` exists. The message says where we looked for the pair and, if `foldgrad data
// fetch` can download the data set, contains the command.
void require_data(const DataConfig& config, const std::string& directory, const std::string& name) {
  const std::string first = name + "." + config.source;
  const bool there = std::filesystem::is_directory(directory);
  if (there && std::filesystem::exists(path_in(directory, first))) return;
  throw FileError(directory, fmt::format("{}; data.directory = \"{}\" is {}",
                                         there ? "has no " + first : "there is no such directory", config.directory,
                                         where_data_lies(directory)));
}

}  // namespace

void DataConfig::validate() const {
  const auto refuse = [](const std::string& what) { throw ConfigError(what); };
  const bool bpe = tokenizer == Tokenizer::bpe, files = !source_dictionary.empty() || !target_dictionary.empty();
  if (task == TextTask::numbers) {
    if (tokenizer != Tokenizer::words || files || lowercase)
      refuse("data.task = \"numbers\" has its own vocabulary: leave out tokenizer, dictionaries and lowercase");
    for (const auto& [key, pairs] : {std::pair("data.train_pairs", train_pairs), {"data.valid_pairs", valid_pairs}})
      if (pairs > numbers::kMostPairs)
        refuse(
            fmt::format("{} must be at most {} with data.task = \"numbers\", got {}", key, numbers::kMostPairs, pairs));
    return;
  }
  if (bpe == bpe_codes.empty())
    refuse(fmt::format("data.bpe_codes must {}name a file if data.tokenizer = \"{}\"", bpe ? "" : "not ",
                       name(tokenizer)));
  if (files && tokenizer == Tokenizer::sentencepiece)
    refuse("data.source_dictionary and target_dictionary must be empty if data.tokenizer = \"sentencepiece\"");
  if (!sentencepiece_model.empty() && tokenizer != Tokenizer::sentencepiece)
    refuse(fmt::format("data.sentencepiece_model must be empty if data.tokenizer = \"{}\"", name(tokenizer)));
  if (source_dictionary.empty() != target_dictionary.empty())
    refuse("data.source_dictionary and target_dictionary must both be given, or neither");
}

ParallelText read_text(const DataConfig& config, const std::string& directory, const std::string& name) {
  if (config.task == TextTask::numbers) return read_numbers(config, name);
  require_data(config, directory, name);
  ParallelText text = read_parallel_text(path_in(directory, name + "." + config.source),
                                         path_in(directory, name + "." + config.target));
  const std::int64_t most = name == config.train ? config.train_pairs : name == config.valid ? config.valid_pairs : 0;
  for (Lines* lines : {&text.source, &text.target}) {
    if (most > 0 && std::int64_t(lines->size()) > most) lines->resize(std::size_t(most));
    if (config.lowercase) std::ranges::transform(*lines, lines->begin(), lower);
  }
  return text;
}

EncodedPairs encode(const Vocabulary& vocabulary, const ParallelText& text) {
  EncodedPairs pairs;
  for (const std::string& line : text.source) pairs.source.push_back(vocabulary.encode_source(line));
  for (const std::string& line : text.target) pairs.target.push_back(vocabulary.encode_target(line));
  return pairs;
}

ExperimentData read_data(const ExperimentConfig& config, const std::string& directory,
                         std::optional<Vocabulary> vocabulary) {
  const auto& d = config.data.as<DataConfig>();
  d.validate();
  ParallelText train = read_text(d, directory, d.train);
  if (!vocabulary) vocabulary = make_vocabulary(config, directory, train);
  ExperimentData data{std::move(*vocabulary), {std::move(train), {}}, {}, {}};
  data.valid.text = read_text(d, directory, d.valid);
  // This comes last, since reading rejects sparse files, which would take hours to digest.
  data.digests = digests_of(d, directory);
  for (Corpus* corpus : {&data.train, &data.valid}) corpus->pairs = encode(data.vocabulary, corpus->text);
  require_room(data.train.pairs, config, directory, d.train, /*cleaned=*/true);
  require_room(data.valid.pairs, config, directory, d.valid, /*cleaned=*/false);
  clean(data.train, d, directory);
  return data;
}

}  // namespace foldgrad
