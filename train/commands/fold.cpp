// foldgrad fold: a model without the normalizers that could be folded away, and the proof.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "engine/files/atomic_file.h"
#include "engine/files/file.h"
#include "models/transformer/batch.h"
#include "models/transformer/transformer.h"
#include "train/checkpoints/model_directory.h"
#include "train/checks/certificate.h"
#include "train/commands/commands.h"
#include "train/data/text/parallel_text.h"
#include "train/data/text/vocabulary.h"
#include "train/system/device.h"
#include "train/system/exit_code.h"

namespace foldgrad {
namespace {

struct FoldCommand {
  std::string model, out, source, target, device = "cpu";
  bool json = false;
  FoldOptions options;
};

// The first lines of --source and --reference, in the vocabulary of the model in `directory`.
Probe text_probe(const FoldCommand& o, const std::string& directory, const TransformerConfig& config) {
  constexpr std::size_t kMostLines = 64;
  const std::vector<std::string> from = read_lines(o.source), to = read_lines(o.target);
  if (from.size() != to.size() || from.empty())
    throw FileError(o.target, fmt::format("must have as many lines as {}, {}, and at least one, got {}", o.source,
                                          from.size(), to.size()));
  const Vocabulary vocabulary = Vocabulary::load(directory + "/vocabulary");
  const auto most = std::size_t(config.max_positions);
  std::vector<Ids> sources, targets;
  for (std::size_t i = 0; i < from.size() && sources.size() < kMostLines; ++i) {
    const Ids a = vocabulary.encode_source(from[i]), b = vocabulary.encode_target(to[i]);
    if (a.size() > most || b.size() > most) continue;
    sources.push_back(a), targets.push_back(b);
  }
  if (sources.empty()) throw FileError(o.source, fmt::format("has no line of at most {} tokens", most));
  return make_probe(make_batch(sources, targets, config.pad).named(),
                    fmt::format("the first {} lines of {} and {}", sources.size(), o.source, o.target));
}

int run_fold(FoldCommand& o) {
  const std::string directory = find_model_directory(o.model);
  const auto model = load_model(directory, DType::f32, require_device(o.device));
  const Probe probe = o.source.empty() ? random_probe(*model)
                                       : text_probe(o, directory, as_transformer(*model, "fold: --source").config());
  const FoldedModel folded = fold(*model, o.options);
  nlohmann::ordered_json proof = certificate(*model, folded, o.options, probe);
  write_model_directory(o.out, *folded.model, directory + "/vocabulary");
  add_digests(proof, directory, o.out);
  write_file_atomically(o.out + "/certificate.json", proof.dump(2) + "\n");
  if (o.json)
    print_json(proof);
  else
    fmt::print("{}{}: folded model and certificate.json\n", summary(proof), o.out);
  return kExitOk;
}

}  // namespace

Action add_fold(CLI::App& command) {
  command.alias("fuse");
  const auto o = std::make_shared<FoldCommand>();
  command.add_option("MODEL", o->model, "Model directory, checkpoint or run")->required();
  command.add_option("-o,--out", o->out, "Directory of the folded model, which must hold none yet")->required();
  add_fold_options(command, o->options);
  CLI::Option* source =
      command.add_option("--source", o->source, "Text to compare on, its first 64 lines; default: random ids");
  source->needs(command.add_option("--reference", o->target, "Its translations")->needs(source));
  add_device_option(command, o->device);
  command.add_flag("--json", o->json, "Print the certificate");
  command.footer("Exit codes: 0, 2 usage, 3 files, 4 the model cannot be loaded, 5 a number is not finite, 6 device.");
  return [o] { return run_fold(*o); };
}

}  // namespace foldgrad
