// foldgrad graph: draws the recorded forward pass, before and after folding.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "engine/files/atomic_file.h"
#include "models/fold/graph_dot.h"
#include "models/fold/model.h"
#include "train/checkpoints/model_directory.h"
#include "train/commands/command.h"
#include "train/system/child_process.h"
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

// An in-memory file that can be opened by name, even by a child process.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& text = "") : descriptor_(memfd_create("graph", 0)) {
    const bool written = descriptor_ >= 0 && write(descriptor_, text.data(), text.size()) == ssize_t(text.size());
    if (!written) throw FileError("graph", "cannot be kept in memory for dot", errno);
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

// Draws `text` with graphviz.
void draw(const std::string& text, const std::string& svg) {
  const MemoryFile from(text), to;
  const ChildResult dot = run_child({"dot", "-Tsvg", "-o", to.path(), from.path()}, /*quiet=*/false);
  if (dot.error == ENOENT)
    throw FileError("dot",
                    "not found; install graphviz (apt-get install graphviz), or write its input with --dot FILE");
  if (!dot.succeeded()) throw FileError(svg, "cannot be drawn: dot " + dot.how());
  write_file_atomically(svg, read_file(to.path()));
}

// Returns runs/a.svg for runs/a and runs/a/.
std::string beside(const std::string& model) {
  const std::filesystem::path path = std::filesystem::path(model).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).string() + ".svg";
}

Answer run_graph(GraphCommand& o) {
  const auto model = load_model(o.model);
  const FoldedModel folded = fold(*model, o.options);
  const Graph before = graph_of(*model), after = graph_of(*folded.model);
  const std::string text =
      graph_dot({{"as trained", before, normalizer_names(*model)}, {"folded", after, normalizer_names(*folded.model)}});
  Answer answer{o.dot == "-" ? text : ""};
  if (!o.dot.empty() && o.dot != "-") write_file_atomically(o.dot, text);
  if (o.svg.empty() && o.dot.empty()) o.svg = beside(o.model);
  if (!o.svg.empty()) draw(text, o.svg), answer.text += o.svg + "\n";
  const auto count = [](const Graph& graph) {
    return std::ranges::count_if(graph.nodes, [](const GraphNode& node) { return node.kind == kNormalizer; });
  };
  say("before folding: {} operations, {} of them normalizers; after folding: {}, {}\n", before.nodes.size(),
      count(before), after.nodes.size(), count(after) == 0 ? "none" : std::to_string(count(after)));
  return answer;
}

}  // namespace

Action add_graph(CLI::App& command) {
  const auto o = std::make_shared<GraphCommand>();
  add_model_option(command, o->model);
  command.add_option("--svg", o->svg, "Picture file, drawn by graphviz; without --dot, the default is MODEL.svg");
  command.add_option("--dot", o->dot, "Output file for the graph, in graphviz's language; - means standard output");
  add_fold_options(command, o->options);
  command.footer(
      "Exit codes: 0 success, 2 usage error, 3 a file cannot be written or graphviz is missing, 4 the model cannot be "
      "loaded.");
  return [o] { return run_graph(*o); };
}

}  // namespace foldgrad
