// foldgrad data: text and images, on the disk, from the network, and drawn by rule.
#include <cctype>
#include <filesystem>

#include "engine/files/file.h"
#include "train/commands/command.h"
#include "train/data/fetch.h"
#include "train/data/images/cifar.h"
#include "train/data/images/shapes.h"
#include "train/data/lines.h"
#include "train/data/text/directory.h"
#include "train/system/digest.h"
#include "train/system/printable.h"
#include "train/system/streams.h"

namespace foldgrad {
namespace {

struct DataOptions {
  std::string directory, to, data_directory, name, digests, sha256;
  std::vector<std::string> renamed, files, urls;
  Preparation preparation;
  std::int64_t train_images = shapes::kTrainImages, test_images = shapes::kTestImages;
  std::uint64_t seed = 1;
  Answer (*run)(const DataOptions&) = nullptr;  // of the command that was given
};

Answer run_info(const DataOptions& options) {
  constexpr const char* kLine = "{:<20} {:>9} {:>4} {:>11} {:>9} {:>8} {:>6}\n";
  const auto& [source, target] = options.preparation.languages;
  auto all = nlohmann::ordered_json::array();
  std::string text = fmt::format(fmt::runtime(kLine), "name", "pairs", "", "words", "distinct", "longest", "empty");
  for (const std::string& name : pair_names(options.directory, options.preparation.languages)) {
    const ParallelText both = read_parallel_text(options.directory, name, source, target);
    nlohmann::ordered_json& pair =
        all.emplace_back(nlohmann::ordered_json{{"name", name}, {"pairs", both.source.size()}});
    for (const auto& [side, language, lines] :
         {std::tuple("source", source, &both.source), {"target", target, &both.target}}) {
      const SideSummary s = summarize(*lines);
      text += fmt::format(fmt::runtime(kLine), name, lines->size(), language, s.words, s.distinct, s.longest, s.empty);
      pair[side] = {{"words", s.words}, {"distinct", s.distinct}, {"longest", s.longest}, {"empty", s.empty}};
    }
  }
  return {text, all};
}

Answer run_verify(const DataOptions& options) {
  const std::vector<std::string> found = problems(options.directory, options.preparation.languages, options.digests);
  for (const std::string& problem : found) say("error: {}\n", problem);
  if (!found.empty()) return {.exit_code = kExitData};
  const std::size_t pairs = pair_names(options.directory, options.preparation.languages).size();
  return {fmt::format("{}: {} pairs of files are sound\n", options.directory, pairs)};
}

Answer run_prepare(const DataOptions& options) {
  Preparation preparation = options.preparation;
  for (const std::string& pair : options.renamed) {
    const std::size_t equal = pair.find('=');
    if (equal == std::string::npos) throw std::invalid_argument("--rename must be OLD=NEW, got " + pair);
    preparation.renamed[pair.substr(0, equal)] = pair.substr(equal + 1);
  }
  const auto names = prepare(options.directory, options.to, preparation);
  return {fmt::format("{}: {}\n", options.to, fmt::join(names, ", "))};
}

Answer fetch_known(const DataSet& set, const DataOptions& options) {
  const std::string root = data_root(options.data_directory) + "/" + set.directory;
  if (!set.digests.empty()) {
    fetch_images(set, options.files, root);
    return {fmt::format("{}: {}\n", root, set.about)};
  }
  Preparation preparation = options.preparation;
  preparation.renamed = set.renamed;
  std::vector<std::string> names;
  with_unpacked(set, options.files, root, [&](const std::string& path) { names = prepare(path, root, preparation); });
  return {fmt::format("{}: {}\n", root, fmt::join(names, ", "))};
}

std::string known_sets() {
  std::vector<std::string> names;
  for (const DataSet& set : data_sets()) names.push_back(set.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// In lower case, as we write digests.
std::string checked_digest(const std::string& text) {
  std::string digest = text;
  for (char& c : digest) c = char(std::tolower(static_cast<unsigned char>(c)));
  FOLDGRAD_CHECK(digest.size() == 64 && digest.find_first_not_of("0123456789abcdef") == digest.npos,
                 "--sha256 must have 64 hexadecimal digits, got {}", in_quotes(digest));
  return digest;
}

// Leaves no empty directory where the file cannot be had.
Answer fetch_file(const DataOptions& options) {
  const std::string digest = checked_digest(options.sha256);
  if (options.urls.empty() == options.files.empty()) throw std::invalid_argument("--sha256 needs --url or --from-file");
  const std::string& from = options.urls.empty() ? options.files[0] : options.urls[0];
  const std::string root = data_root(options.data_directory) + "/" + options.name;
  const Download wanted{options.urls, digest, root + "/" + from.substr(from.rfind('/') + 1)};
  try {
    options.urls.empty() ? take_file(options.files[0], wanted) : download(wanted);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(root, ignored);
    throw;
  }
  return {wanted.path + "\n"};
}

Answer run_fetch(const DataOptions& options) {
  if (!options.sha256.empty()) return fetch_file(options);
  if (!options.urls.empty()) throw std::invalid_argument("--url needs --sha256");
  for (const DataSet& set : data_sets())
    if (set.name == options.name) return fetch_known(set, options);
  throw std::invalid_argument(
      fmt::format("there is no data set \"{}\" to fetch; known: {}. Files from elsewhere: foldgrad data prepare",
                  options.name, known_sets()));
}

// Nothing is written over.
Answer run_synth(const DataOptions& options) {
  FOLDGRAD_CHECK(options.name == "shapes", "there is no task {} to draw; known: shapes", in_quotes(options.name));
  for (const ImagePart part : {ImagePart::train, ImagePart::test})
    for (const std::string& path : cifar_files(options.to, cifar10_layout(), part))
      if (std::filesystem::exists(path))
        throw FileError(path, "is there already; name another directory, or remove it");
  const ImageSet train = shapes::sample(ImagePart::train, options.train_images, options.seed);
  const ImageSet test = shapes::sample(ImagePart::test, options.test_images, options.seed);
  write_cifar10(options.to, train, test);
  return {fmt::format("{}: {} images to train on, {} to test\n", options.to, train.size(), test.size())};
}

}  // namespace

Action add_data(CLI::App& data) {
  data.require_subcommand(1);
  data.footer("Exit codes: 0, 2 options, 3 data.");
  const auto o = std::make_shared<DataOptions>();
  Preparation& p = o->preparation;
  const auto add = [&](const char* name, const std::string& help, Answer (*run)(const DataOptions&)) {
    CLI::App* command = data.add_subcommand(name, help);
    command->add_option("--source", p.languages.source, "Extension of the source files")->capture_default_str();
    command->add_option("--target", p.languages.target, "Extension of the target files")->capture_default_str();
    command->callback([o, run] { o->run = run; });
    return command;
  };
  CLI::App* info = add("info", "Pairs, words and lengths of all files in a directory", run_info);
  info->add_option("DIR", o->directory)->required();
  add_json_option(*info);
  CLI::App* verify = add("verify", "Check numbers of lines, UTF-8, and digests against SHA256SUMS", run_verify);
  verify->add_option("DIR", o->directory)->required();
  verify->add_option("--digests", o->digests, "File as sha256sum writes it (default: DIR/SHA256SUMS, if there is one)");
  CLI::App* prepare = add("prepare", "Write the pairs of FROM into TO, with digests", run_prepare);
  prepare->add_option("FROM", o->directory)->required();
  prepare->add_option("TO", o->to)->required();
  add_repeated_option(*prepare, "--rename", o->renamed, "OLD=NEW", "Renames a pair; val becomes valid anyway");
  add_repeated_option(*prepare, "--only", p.only, "NAME", "Takes this pair only, without extension");
  prepare->add_flag("--lowercase", p.lowercase, "Lower-case all text");
  prepare->add_option("--sentencepiece", p.sentence_piece,
                      "Learn sentencepiece.model with this many pieces from train");
  CLI::App* fetch = add("fetch", "Fetch and prepare a data set: " + known_sets(), run_fetch);
  fetch->add_option("NAME", o->name, "The data set; with --url, the directory below --data-dir")->required();
  fetch->add_option("--data-dir", o->data_directory,
                    "Data root; default: $FOLDGRAD_DATA, $XDG_CACHE_HOME/foldgrad or ~/.cache/foldgrad");
  add_repeated_option(*fetch, "--from-file", o->files, "FILE", "An archive that you have already");
  add_repeated_option(*fetch, "--url", o->urls, "URL", "Any other file, with --sha256, or a mirror of it");
  fetch->add_option("--sha256", o->sha256, "SHA-256 of that file");
  CLI::App* synth = data.add_subcommand("synth", "Draw images by rule, and write them in the layout of CIFAR-10");
  synth->callback([o] { o->run = run_synth; });
  synth->add_option("TASK", o->name, "What to draw: shapes")->required();
  synth->add_option("OUT", o->to, "Directory to write to; files that are there already are not replaced")->required();
  const std::int64_t files = std::int64_t(cifar10_layout().train.size());
  add_count(*synth, "--count", o->train_images, files, shapes::kMostImages, "How many images to train on");
  add_count(*synth, "--test-count", o->test_images, 1, shapes::kMostImages, "How many images to test on");
  synth->add_option("--seed", o->seed, "Seed of the random numbers")->capture_default_str();
  return [o] { return o->run(*o); };
}

}  // namespace foldgrad
