// foldgrad translate: lines from stdin to stdout.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "engine/files/file.h"
#include "train/commands/commands.h"
#include "train/commands/load_transformer.h"
#include "train/system/exit_code.h"
#include "train/system/streams.h"
#include "train/system/unicode.h"
#include "train/tasks/evaluation.h"

namespace foldgrad {
namespace {

struct TranslateOptions {
  std::string model, dtype = "f32";
  DecodingOptions decoding;
  std::int64_t max_tokens = 4096, lines = 1000;
  NonFinite non_finite = NonFinite::refuse;
};

class Translator {
 public:
  explicit Translator(const TranslateOptions& options)
      : options_(options),
        model_(load_transformer(options.model, DType::f32, Device::cpu, options.non_finite)),
        vocabulary_(load_vocabulary(options.model, model_->config())),
        inference_(InferenceTransformer::make(*model_, options.dtype == "bf16" ? DType::bf16 : DType::f32)),
        most_(std::min(model_->config().max_positions, options.max_tokens)) {}

  // All of stdin. What stands before a line that cannot be read or translated is still translated and printed.
  void translate(std::int64_t lines_at_once) {
    for (bool more = true; more;) {
      try {
        more = add_line();
      } catch (...) {
        flush();
        throw;
      }
      if (!more || std::int64_t(empty_.size()) >= lines_at_once) flush();
    }
  }

 private:
  bool add_line() {
    std::string line;
    if (!read_line_of_stdin(line)) return false;
    ++read_;
    add(std::move(line));
    return true;
  }

  std::string translated(const Hypothesis& best) const {
    if (options_.non_finite == NonFinite::refuse && !std::isfinite(best.score))
      throw NonFiniteError(fmt::format("stdin:{}: the logits of its translation are not finite", printed_));
    return vocabulary_.decode_target(best.ids);
  }

  void add(std::string line) {
    const std::string place = fmt::format("stdin:{}", read_);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (read_ == 1 && line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);  // a byte order mark, as in read_lines()
    if (const std::size_t bad = first_bad_utf8(line); bad != std::string::npos)
      throw FileError(place, fmt::format("is not UTF-8 at byte {}", bad + 1));
    if (split_words(line).empty()) {
      empty_.push_back(true);
      return;
    }
    Ids ids = vocabulary_.encode_source(line);
    if (std::int64_t(ids.size()) > most_)
      throw FileError(place, fmt::format("must have at most {} tokens with the end, got {}", most_, ids.size()));
    sources_.push_back(std::move(ids));
    empty_.push_back(false);
  }

  void flush() {
    std::vector<Hypothesis> best;
    if (!sources_.empty()) best = best_hypotheses(*inference_, sources_, options_.decoding, options_.max_tokens);
    auto next = best.begin();
    for (const bool empty : empty_) {
      ++printed_;
      fmt::print("{}\n", empty ? "" : translated(*next++));
    }
    flush_stdout();
    sources_.clear();
    empty_.clear();
  }

  const TranslateOptions& options_;
  std::unique_ptr<Transformer> model_;
  Vocabulary vocabulary_;
  std::unique_ptr<InferenceTransformer> inference_;
  std::int64_t most_, read_ = 0, printed_ = 0;  // lines
  std::vector<Ids> sources_;                    // of lines that were read and not yet printed
  std::vector<bool> empty_;                     // of each such line
};

int translate(const TranslateOptions& o) {
  // Someone who types wants each answer at once.
  Translator(o).translate(isatty(STDIN_FILENO) ? 1 : o.lines);
  return kExitOk;
}

}  // namespace

void add_decoding_options(CLI::App& command, DecodingOptions& o, std::int64_t& max_tokens) {
  const auto at_least = [](double least) { return CLI::Range(least, 1e9); };
  command.add_option("--beam", o.beam, "Hypotheses of the beam; 1: greedy")
      ->check(CLI::Range(std::int64_t(1), std::int64_t(1000)))
      ->capture_default_str();
  command.add_option("--length-penalty", o.length_penalty, "Scores are divided by the length to this power")
      ->check(at_least(0))
      ->capture_default_str();
  command
      .add_option("--max-length-a", o.max_length_a,
                  "Longest translation, its end not counted: floor(a * tokens of the source with their end + b)")
      ->check(at_least(0))
      ->capture_default_str();
  command.add_option("--max-length-b", o.max_length_b, "The b of it")
      ->check(CLI::Range(std::int64_t(0), std::int64_t(1000000)))
      ->capture_default_str();
  command.add_option("--max-tokens", max_tokens, "Size of a batch: sentences times the tokens of the longest")
      ->check(CLI::Range(std::int64_t(1), std::int64_t(100000000)))
      ->capture_default_str();
}

void add_translate_command(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand("translate", "Translate text, line by line from stdin to stdout");
  const auto o = std::make_shared<TranslateOptions>();
  command->add_option("MODEL", o->model, "Model directory, checkpoint or run, with a vocabulary")->required();
  add_decoding_options(*command, o->decoding, o->max_tokens);
  add_non_finite_option(*command, o->non_finite);
  command->add_option("--lines", o->lines, "Lines read before the first is translated; 1 on a terminal")
      ->check(CLI::Range(std::int64_t(1), std::int64_t(100000000)))
      ->capture_default_str();
  command->add_option("--dtype", o->dtype, "Of weights and products")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  command->footer(
      "Lines stay in their order; those without words stay empty.\n"
      "Exit codes: 0, 2 usage, 3 a line cannot be translated, 4 the model cannot be loaded, 5 a number is not finite.");
  command->callback([o, &exit_code] { exit_code = translate(*o); });
}

}  // namespace foldgrad
