#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <unordered_map>

#include "engine/check.h"
#include "engine/files/file.h"
#include "train/system/unicode.h"
#include "train/tasks/translation/sentence_piece.h"

namespace foldgrad {

struct SentencePiece::Model {
  sentencepiece::SentencePieceProcessor processor;
  std::string bytes;
};

namespace {

// Passes the lines to the trainer, which otherwise reads only files.
class LineIterator final : public sentencepiece::SentenceIterator {
 public:
  explicit LineIterator(const std::vector<std::string>& lines) : lines_(lines) {}
  bool done() const override { return at_ == lines_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return lines_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& lines_;
  std::size_t at_ = 0;
};

// Returns false if the library rejects the model. The library reports most errors in its status and throws the others.
bool load(auto& model) try {
  return !model.bytes.empty() && model.processor.LoadFromSerializedProto(model.bytes).ok();
} catch (const std::exception&) {
  return false;
}

// Removes the location in the library, "Internal: trainer_interface.cc(591) [(a) == (b)] ", and explains a wrong
// vocabulary size in our words.
std::string reason(const std::string& text) {
  long size, limit;
  const char *high = std::strstr(text.c_str(), "Vocabulary size too high"),
             *low = std::strstr(text.c_str(), "required_chars. ");
  if (high && std::sscanf(high, "Vocabulary size too high (%ld). Please set it to a value <= %ld", &size, &limit) == 2)
    return fmt::format("the vocabulary must have at most {} pieces for this text, got {}", limit, size);
  if (low && std::sscanf(low, "required_chars. %ld vs %ld", &size, &limit) == 2)
    return fmt::format("the vocabulary must have at least {} pieces for the characters of this text, got {}", limit,
                       size);
  const std::size_t place = text.find(".cc("), condition = text.rfind("] ");
  if (place == text.npos) return text;
  return condition == text.npos ? "the library cannot train a model on this text" : text.substr(condition + 2);
}

// Returns true if the library turns a character into white space or nothing by its rules, which are NFKC and its own
// ("nmt_nfkc"). The library ends the process if all lines consist of such characters.
bool vanishes(char32_t c) {
  return is_space(c) || c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x200B && c <= 0x200F) || c == 0x2581 ||
         c == 0xFEFF || c == 0xFFFD;
}

constexpr std::size_t kLongestLine = 4192;  // in bytes; the library skips longer lines

bool has_words(const std::string& line) {
  return line.size() <= kLongestLine && !std::ranges::all_of(decode_utf8(line), vanishes);
}

}  // namespace

bool sentence_piece_available() { return true; }

SentencePiece SentencePiece::read(const std::string& path) {
  auto model = std::make_shared<Model>();
  model->bytes = read_file(path);
  if (!load(*model)) throw FileError(path, "must be a SentencePiece model");
  const auto& p = model->processor;
  if (p.bos_id() != kBos || p.pad_id() != kPad || p.eos_id() != kEos || p.unk_id() != kUnk)
    throw FileError(path, fmt::format("the ids of bos, pad, eos, unk must be 0, 1, 2, 3, got {}, {}, {}, {}; run "
                                      "spm_train with --bos_id=0 --pad_id=1 --eos_id=2 --unk_id=3",
                                      p.bos_id(), p.pad_id(), p.eos_id(), p.unk_id()));
  return SentencePiece(std::move(model));
}

SentencePiece SentencePiece::train(const std::vector<std::string>& lines, std::int64_t vocabulary, Kind kind) {
  FOLDGRAD_CHECK(!lines.empty(), "sentence_piece: there must be at least one line, got 0");
  FOLDGRAD_CHECK(
      std::ranges::any_of(lines, has_words),
      "sentence_piece: at least one line of at most {} bytes must contain a word, but none of the {} lines does",
      kLongestLine, lines.size());
  std::unordered_map<std::string, std::string> arguments{{"model_type", kind == Kind::bpe ? "bpe" : "unigram"},
                                                         {"vocab_size", std::to_string(vocabulary)},
                                                         {"character_coverage", "1.0"},
                                                         {"max_sentence_length", std::to_string(kLongestLine)},
                                                         {"num_threads", "1"},  // so that the model is always the same
                                                         {"bos_id", std::to_string(kBos)},
                                                         {"pad_id", std::to_string(kPad)},
                                                         {"eos_id", std::to_string(kEos)},
                                                         {"unk_id", std::to_string(kUnk)},
                                                         {"minloglevel", "3"}};
  if (kind == Kind::bpe)
    arguments.insert({{"normalization_rule_name", "identity"},
                      {"remove_extra_whitespaces", "false"},
                      {"add_dummy_prefix", "false"},
                      {"byte_fallback", "true"}});
  LineIterator iterator(lines);
  auto model = std::make_shared<Model>();
  const auto status = sentencepiece::SentencePieceTrainer::Train(arguments, &iterator, &model->bytes);
  FOLDGRAD_CHECK(status.ok(), "sentence_piece: {}", reason(status.error_message()));
  FOLDGRAD_CHECK(load(*model), "sentence_piece: the library cannot load the model that it trained on this text");
  return SentencePiece(std::move(model));
}

std::string SentencePiece::model() const { return model_->bytes; }

std::int64_t SentencePiece::size() const { return model_->processor.GetPieceSize(); }

Ids SentencePiece::encode(const std::string& line) const {
  const std::vector<int> pieces = model_->processor.EncodeAsIds(line);
  Ids ids(pieces.begin(), pieces.end());
  ids.push_back(kEos);
  return ids;
}

std::string SentencePiece::decode(const Ids& ids) const {
  std::vector<int> pieces;
  for (const std::int64_t id : ids) {
    if (id == kEos) break;
    FOLDGRAD_CHECK(id >= 0 && id < size(), "sentence_piece: ids must be in [0, {}), got {}", size(), id);
    pieces.push_back(int(id));
  }
  return model_->processor.DecodeIds(pieces);
}

}  // namespace foldgrad
