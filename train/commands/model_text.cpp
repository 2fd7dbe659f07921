#include "train/commands/model_text.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "engine/check.h"
#include "engine/files/file.h"
#include "train/checkpoints/model_directory.h"
#include "train/data/data_root.h"
#include "train/data/text/experiment_data.h"

namespace foldgrad {
namespace {

std::vector<Ids> encoded(const std::vector<std::string>& lines, const char* side, std::int64_t most,
                         const std::function<Ids(const std::string&)>& encode) {
  std::vector<Ids> all;
  for (const std::string& line : lines) {
    all.push_back(encode(line));
    if (std::int64_t(all.back().size()) > most)
      throw FileError(fmt::format("{}:{}", side, all.size()),
                      fmt::format("must have at most {} tokens with the end, got {}", most, all.back().size()));
  }
  return all;
}

}  // namespace

void add_model_text_options(CLI::App& command, ModelTextOptions& options, const std::string& split) {
  options.split = split;
  command.add_option("--source", options.source, "File of sentences, one per line; below --data-dir if that is given");
  command.add_option("--reference", options.reference, "File of their translations");
  command
      .add_option("--split", options.split,
                  "Without files: train, valid or test of the run that MODEL belongs to, or another name in its data "
                  "directory")
      ->capture_default_str();
  command.add_option("--data-dir", options.data_directory,
                     "Root of data.directory, or of --source; default: $FOLDGRAD_DATA");
}

ParallelText read_model_text(const ModelTextOptions& o, const std::string& model, const Vocabulary& vocabulary) {
  FOLDGRAD_CHECK(o.source.empty() == o.reference.empty(), "--source and --reference must both be given, or neither");
  ParallelText text;
  if (!o.source.empty()) {
    const std::filesystem::path below = o.data_directory;  // an absolute name stays
    const std::string source = below / o.source, reference = below / o.reference;
    text = {read_lines(source), read_lines(reference)};
    if (text.source.size() != text.target.size())
      throw FileError(
          reference, fmt::format("must have {} lines like {}, got {}", text.source.size(), source, text.target.size()));
    if (text.source.empty()) throw FileError(source, "has no line");
  } else {
    const std::string path = find_run_config(model);
    FOLDGRAD_CHECK(!path.empty(), "{} belongs to no run: --source and --reference must name text", model);
    const DataConfig data = read_config(path).data;
    const std::string name = o.split == "train"   ? data.train
                             : o.split == "valid" ? data.valid
                             : o.split == "test"  ? data.test
                                                  : o.split;
    text = read_text(data, data_directory(data.directory, o.data_directory), name);
  }
  for (std::string& line : text.target) line = vocabulary.normalized(line);
  return text;
}

EncodedPairs encode_model_text(const ParallelText& text, const Vocabulary& vocabulary, std::int64_t most) {
  return {
      encoded(text.source, "source", most, [&](const std::string& line) { return vocabulary.encode_source(line); }),
      encoded(text.target, "reference", most, [&](const std::string& line) { return vocabulary.encode_target(line); })};
}

}  // namespace foldgrad
