// foldgrad graph: the recorded forward pass as a picture, before and after folding.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <filesystem>
#include <memory>

#include "engine/files/atomic_file.h"
#include "models/fold/graph_dot.h"
#include "models/fold/model.h"
#include "train/checkpoints/model_directory.h"
#include "train/commands/commands.h"
#include "train/system/child_process.h"
#include "train/system/exit_code.h"
#include "train/system/scratch_directory.h"
#include "train/system/streams.h"

namespace foldgrad {
namespace {

struct GraphCommand {
  std::string model, svg, dot;
  FoldOptions options;
};

std::map<std::string, std::string> normalizer_names(const Model& model) {
  std::map<std::string, std::string> names;
  for (const Normalizer* norm : model.normalizers()) names[norm->site()] = norm->info().name;
  return names;
}

// Through graphviz.
void draw(const std::string& text, const std::string& svg) {
  const ScratchDirectory scratch;
  const std::string from = scratch / "graph.dot", to = scratch / "graph.svg";
  write_file_atomically(from, text);
  const ChildResult dot = run_child({"dot", "-Tsvg", "-o", to, from}, /*quiet=*/false);
  if (dot.error == ENOENT)
    throw std::runtime_error(
        "--svg needs the program dot of graphviz (apt-get install graphviz); --dot FILE writes the text it takes");
  if (dot.error != 0) throw FileError(svg, "cannot be drawn, since dot cannot be started", dot.error);
  if (!dot.succeeded()) throw FileError(svg, "cannot be drawn by dot");
  write_file_atomically(svg, read_file(to));
}

// runs/a.svg for runs/a and runs/a/.
std::string beside(const std::string& model) {
  const std::filesystem::path path = std::filesystem::path(model).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).string() + ".svg";
}

int run_graph(GraphCommand& o) {
  const auto model = load_model(o.model);
  const FoldedModel folded = fold(*model, o.options);
  const Graph before = graph_of(*model), after = graph_of(*folded.model);
  const std::string text =
      graph_dot({{"as trained", before, normalizer_names(*model)}, {"folded", after, normalizer_names(*folded.model)}});
  if (!o.dot.empty()) o.dot == "-" ? fmt::print("{}", text) : write_file_atomically(o.dot, text);
  if (o.svg.empty() && o.dot.empty()) o.svg = beside(o.model);
  if (!o.svg.empty()) draw(text, o.svg), fmt::print("{}\n", o.svg);
  const auto count = [](const Graph& graph) {
    return std::ranges::count_if(graph.nodes, [](const GraphNode& node) { return node.kind == kNormalizer; });
  };
  say("{} operations, {} of them normalizers; folded {}, {}\n", before.nodes.size(), count(before), after.nodes.size(),
      count(after));
  return kExitOk;
}

}  // namespace

Action add_graph(CLI::App& command) {
  const auto o = std::make_shared<GraphCommand>();
  command.add_option("MODEL", o->model, "Model directory, checkpoint or run")->required();
  command.add_option("--svg", o->svg, "Picture, made by graphviz; without this and --dot: MODEL.svg");
  command.add_option("--dot", o->dot, "Text for graphviz; - is standard output");
  add_fold_options(command, o->options);
  command.footer("Exit codes: 0, 1 graphviz is missing, 2 usage, 3 files, 4 the model cannot be loaded.");
  return [o] { return run_graph(*o); };
}

}  // namespace foldgrad
