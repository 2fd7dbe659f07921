// foldgrad data: describes, checks, prepares, fetches and generates text and images.
#include <algorithm>
#include <filesystem>
#include <map>
#include <unordered_set>

#include "engine/contains.h"
#include "engine/files/atomic_file.h"
#include "train/commands/command.h"
#include "train/data/fetch.h"
#include "train/data/lines.h"
#include "train/system/digest.h"
#include "train/system/printable.h"
#include "train/system/streams.h"
#include "train/system/unicode.h"
#include "train/tasks/classification/images/cifar.h"
#include "train/tasks/classification/images/info.h"
#include "train/tasks/classification/images/shapes.h"
#include "train/tasks/translation/sentence_piece.h"

namespace foldgrad {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDigits = 64;                // length of a SHA-256 digest
constexpr const char* kDigestFile = "SHA256SUMS";  // the format that sha256sum writes and checks

struct DataOptions {
  std::string source = "de", target = "en";  // extensions of parallel text files
  std::string directory, to, data_directory, name, digests;
  std::vector<std::string> renamed, only, files;
  bool lowercase = false;
  std::int64_t sentence_piece = 0;  // size of the SentencePiece model to train; 0 for none
  std::int64_t train_images = shapes::kTrainImages, test_images = shapes::kTestImages;
  std::uint64_t seed = 1;
  Answer (*run)(const DataOptions&) = nullptr;  // the chosen subcommand
};

Answer images_info(const std::vector<std::pair<std::string, FolderCounts>>& parts) {
  auto all = nlohmann::ordered_json::array();
  for (const auto& [name, counts] : parts) {
    nlohmann::ordered_json classes;
    for (std::size_t k = 0; k < counts.classes.size(); ++k) classes[counts.classes[k]] = counts.images[k];
    all.push_back({{"name", name}, {"classes", classes}, {"left_out", counts.left_out}});
  }
  return {table_of(parts), all};
}

Answer run_info(const DataOptions& o) {
  if (const auto parts = count_images(o.directory); !parts.empty()) return images_info(parts);
  constexpr const char* kLine = "{:<20} {:>9} {:>4} {:>11} {:>9} {:>8} {:>6}\n";
  auto all = nlohmann::ordered_json::array();
  std::string text = fmt::format(fmt::runtime(kLine), "name", "pairs", "", "words", "distinct", "longest", "empty");
  for (const std::string& name : pair_names(o.directory, o.source, o.target)) {
    const ParallelText both = read_parallel_text(o.directory, name, o.source, o.target);
    nlohmann::ordered_json& pair =
        all.emplace_back(nlohmann::ordered_json{{"name", name}, {"pairs", both.source.size()}});
    for (const auto& [side, language, lines] :
         {std::tuple("source", o.source, &both.source), {"target", o.target, &both.target}}) {
      std::size_t words = 0, longest = 0, empty = 0;
      std::unordered_set<std::string> distinct;
      for (const std::string& line : *lines) {
        const std::vector<std::string> of_line = split_words(line);
        words += of_line.size();
        longest = std::max(longest, of_line.size());
        empty += of_line.empty();
        distinct.insert(of_line.begin(), of_line.end());
      }
      text += fmt::format(fmt::runtime(kLine), name, lines->size(), language, words, distinct.size(), longest, empty);
      pair[side] = {{"words", words}, {"distinct", distinct.size()}, {"longest", longest}, {"empty", empty}};
    }
  }
  return {text, all};
}

// Adds to `found` each file that is listed in a digest file but is missing or has a different digest, and the first
// invalid line of the digest file.
void check_digests(const std::string& directory, const std::string& digests, std::vector<std::string>& found) {
  for (std::size_t number = 0, wrong = 0; const std::string& line : read_lines(digests)) {
    ++number;
    const std::size_t name = line.find_first_not_of(" *", kDigits);
    if (line.find(' ') != kDigits || name == line.npos) {
      if (++wrong == 1)
        found.push_back(fmt::format("{}: line {} must be \"SHA-256  NAME\", got {}", digests, number, in_quotes(line)));
      continue;
    }
    const std::string path = directory + "/" + line.substr(name);
    if (std::ranges::any_of(found, [&](const auto& problem) { return problem.starts_with(path + ": "); })) continue;
    try {
      require_digest(path, line.substr(0, kDigits));
    } catch (const FileError& e) {
      found.push_back(e.what());
    }
  }
}

// Reports unreadable pairs, files without a counterpart in the other language, and the findings of check_digests().
Answer run_verify(const DataOptions& o) {
  std::vector<std::string> found;
  const std::vector<std::string> names = pair_names(o.directory, o.source, o.target);
  for (const std::string& name : names) try {
      read_parallel_text(o.directory, name, o.source, o.target);
    } catch (const FileError& e) {
      found.push_back(e.what());
    }
  for (const auto& [ending, other] : {std::pair(o.source, o.target), {o.target, o.source}})
    for (const std::string& name : stems(o.directory, ending))
      if (!std::ranges::binary_search(names, name))
        found.push_back(fmt::format("{}/{}.{}: there is no {}.{} next to it", o.directory, name, ending, name, other));
  const std::string own = o.directory + "/" + kDigestFile;
  if (!o.digests.empty() || file_exists(own)) check_digests(o.directory, o.digests.empty() ? own : o.digests, found);
  for (const std::string& problem : found) say("error: {}\n", problem);
  if (!found.empty()) return {.exit_code = kExitData};
  return {fmt::format("{}: {} pairs of files are valid\n", o.directory, names.size())};
}

// Returns, for each pair to write, its name in `from` and its name in `to`. Throws FileError if a pair would overwrite
// another, or one that has yet to be read.
std::vector<std::pair<std::string, std::string>> new_names(const std::string& from, const std::string& to,
                                                           const std::map<std::string, std::string>& renamed,
                                                           const DataOptions& o) {
  std::error_code ignored;
  const bool in_place = fs::equivalent(from, to, ignored);
  const std::vector<std::string> there = pair_names(from, o.source, o.target);
  std::vector<std::pair<std::string, std::string>> all;
  for (const std::string& old : o.only.empty() ? there : o.only) {
    const auto found = renamed.find(old);
    const std::string name = found != renamed.end() ? found->second : old == "val" ? "valid" : old;
    for (const auto& [other, taken] : all)
      if (taken == name) throw FileError(from, fmt::format("{} and {} would both be written to {}", other, old, name));
    if (in_place && name != old && contains(there, name))
      throw FileError(from, fmt::format("{} would overwrite {}; choose another output directory", old, name));
    all.emplace_back(old, name);
  }
  return all;
}

// Writes the pairs of `from` to `to`, with "\n" as line endings, and writes their digests. `renamed` maps old names to
// new ones; val always becomes valid. Throws FileError.
Answer prepare(const std::string& from, const std::string& to, const std::map<std::string, std::string>& renamed,
               const DataOptions& o) {
  std::vector<std::string> names, train;
  std::string digests;
  const auto write = [&](const std::string& name, const std::string& content) {
    write_file_atomically(to + "/" + name, content);
    digests += fmt::format("{}  {}\n", sha256(content), name);
  };
  const auto pairs = new_names(from, to, renamed, o);
  make_directories(to);
  for (const auto& [old, name] : pairs) {
    ParallelText text = read_parallel_text(from, old, o.source, o.target);
    for (std::vector<std::string>* lines : {&text.source, &text.target}) {
      if (o.lowercase)
        for (std::string& line : *lines) line = lower(line);
      if (name == "train") train.insert(train.end(), lines->begin(), lines->end());
    }
    for (const auto& [language, lines] : {std::pair(o.source, &text.source), {o.target, &text.target}})
      write(name + "." + language, fmt::format("{}\n", fmt::join(*lines, "\n")));
    names.push_back(name);
  }
  if (o.sentence_piece > 0) write("sentencepiece.model", SentencePiece::train(train, o.sentence_piece).model());
  write_file_atomically(to + "/" + kDigestFile, digests);
  return {fmt::format("{}: {}\n", to, fmt::join(names, ", "))};
}

Answer run_prepare(const DataOptions& o) {
  std::map<std::string, std::string> renamed;
  for (const std::string& pair : o.renamed) {
    const std::size_t equal = pair.find('=');
    const std::string name = equal == pair.npos ? "" : pair.substr(equal + 1);
    if (name.empty() || contains(name, '/')) throw std::invalid_argument("--rename must be OLD=NEW, got " + pair);
    renamed[pair.substr(0, equal)] = name;
  }
  const std::vector<std::string> there = pair_names(o.directory, o.source, o.target);
  for (const auto& [old, name] : renamed)
    if (!contains(there, old)) throw FileError(o.directory, fmt::format("--rename: there is no pair named {}", old));
  return prepare(o.directory, o.to, renamed, o);
}

Answer fetch_known(const DataSet& set, const DataOptions& options) {
  const std::string root = data_root(options.data_directory) + "/" + set.directory;
  if (!set.digests.empty()) {
    fetch_images(set, options.files, root);
    return {fmt::format("{}: {}\n", root, set.about)};
  }
  Answer answer;
  with_unpacked(set, options.files, root,
                [&](const std::string& path) { answer = prepare(path, root, set.renamed, options); });
  return answer;
}

std::string known_sets() {
  std::vector<std::string> names;
  for (const DataSet& set : data_sets()) names.push_back(set.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Answer run_fetch(const DataOptions& options) {
  if (options.name.empty()) throw CLI::ValidationError("NAME", "is missing; known data sets: " + known_sets());
  for (const DataSet& set : data_sets())
    if (set.name == options.name) return fetch_known(set, options);
  throw std::invalid_argument(fmt::format(
      "there is no data set \"{}\" to fetch; the known ones are {}. For other files, use foldgrad data prepare",
      options.name, known_sets()));
}

// Draws a data set. Never overwrites a file.
Answer run_synth(const DataOptions& options) {
  FOLDGRAD_CHECK(options.name == "shapes", "cannot draw task {}; only shapes is supported", in_quotes(options.name));
  for (const ImagePart part : {ImagePart::train, ImagePart::test})
    for (const std::string& path : cifar_files(options.to, cifar10_layout(), part))
      if (file_exists(path)) throw FileError(path, "already exists; choose another directory, or remove it");
  const ImageSet train = shapes::sample(ImagePart::train, options.train_images, options.seed);
  const ImageSet test = shapes::sample(ImagePart::test, options.test_images, options.seed);
  write_cifar10(options.to, train, test);
  return {fmt::format("{}: {} training images, {} test images\n", options.to, train.size(), test.size())};
}

}  // namespace

Action add_data(CLI::App& data) {
  data.require_subcommand(1);
  data.footer("Exit codes: 0 success, 2 usage error, 3 the data cannot be read or written.");
  const auto o = std::make_shared<DataOptions>();
  const auto add = [&](const char* name, const std::string& help, Answer (*run)(const DataOptions&)) {
    CLI::App* command = data.add_subcommand(name, help);
    command->add_option("--source", o->source, "File extension of the source language")->capture_default_str();
    command->add_option("--target", o->target, "File extension of the target language")->capture_default_str();
    command->callback([o, run] { o->run = run; });
    return command;
  };
  CLI::App* info =
      add("info", "Show statistics: pairs, words and the longest sentence of a text, or images per class", run_info);
  info->add_option("DIR", o->directory)->required();
  add_json_option(*info);
  CLI::App* verify = add("verify", "Check line counts and UTF-8, and compare digests with SHA256SUMS", run_verify);
  verify->add_option("DIR", o->directory)->required();
  verify->add_option("--digests", o->digests,
                     "Digest file in the format of sha256sum (default: DIR/SHA256SUMS, if it exists)");
  CLI::App* prepare = add("prepare", "Copy the pairs in FROM to TO and write their digests", run_prepare);
  prepare->add_option("FROM", o->directory)->required();
  prepare->add_option("TO", o->to)->required();
  add_repeated_option(*prepare, "--rename", o->renamed, "OLD=NEW", "Rename a pair; val is always renamed to valid");
  add_repeated_option(*prepare, "--only", o->only, "NAME", "Copy only this pair, given without its extension");
  prepare->add_flag("--lowercase", o->lowercase, "Lower-case all text");
  prepare->add_option("--sentencepiece", o->sentence_piece,
                      "Train sentencepiece.model with this many pieces on the pair named train");
  CLI::App* fetch = add("fetch", "Fetch and prepare a data set: " + known_sets(), run_fetch);
  fetch->add_option("NAME", o->name, "Name of the data set");
  fetch->add_option(
      "--data-dir", o->data_directory,
      "Root directory of all data; default: $FOLDGRAD_DATA, $XDG_CACHE_HOME/foldgrad or ~/.cache/foldgrad");
  add_repeated_option(*fetch, "--from-file", o->files, "FILE", "Use this archive instead of downloading it");
  CLI::App* synth = data.add_subcommand("synth", "Generate synthetic images and write them in the layout of CIFAR-10");
  synth->callback([o] { o->run = run_synth; });
  synth->add_option("TASK", o->name, "What to draw: shapes")->required();
  synth->add_option("OUT", o->to, "Output directory; existing files are not replaced")->required();
  const std::int64_t files = std::int64_t(cifar10_layout().train.size());
  add_number(*synth, "--count", o->train_images, files, shapes::kMostImages, "Number of training images");
  add_number(*synth, "--test-count", o->test_images, 1, shapes::kMostImages, "Number of test images");
  synth->add_option("--seed", o->seed, "Seed for the random numbers")->capture_default_str();
  return [o] { return o->run(*o); };
}

}  // namespace foldgrad
