// foldgrad translate: lines from stdin to stdout.
#include <unistd.h>

#include <cmath>

#include "engine/files/file.h"
#include "train/commands/command.h"
#include "train/commands/load_model_as.h"
#include "train/data/lines.h"
#include "train/system/device.h"
#include "train/system/streams.h"
#include "train/system/unicode.h"
#include "train/tasks/translation/translation.h"

namespace foldgrad {
namespace {

struct TranslateOptions {
  std::string model, device = "auto";
  DType dtype = DType::f32;
  DecodingOptions decoding;
  std::int64_t max_tokens = 4096, lines = 1000;
  NonFinite non_finite = NonFinite::refuse;
};

class Translator {
 public:
  explicit Translator(const TranslateOptions& options)
      : options_(options),
        model_(load_transformer(options.model, DType::f32, require_device(options.device), options.non_finite)),
        vocabulary_(load_vocabulary(find_model_directory(options.model), model_->config())),
        inference_(*model_, options.dtype),
        most_(std::min(model_->config().max_positions, options.max_tokens)) {}

  // Translates all of stdin. If a line fails, the lines before it are still translated and printed.
  void translate(std::int64_t lines_at_once) {
    for (bool more = true; more;) {
      try {
        std::string line;
        more = read_line_of_stdin(line);
        if (more) add(std::move(line));
      } catch (...) {
        flush();
        throw;
      }
      if (!more || std::int64_t(sources_.size()) >= lines_at_once) flush();
    }
  }

 private:
  std::string translated(const Hypothesis& best) const {
    if (options_.non_finite == NonFinite::refuse && !std::isfinite(best.score))
      throw NonFiniteError(fmt::format("stdin:{}: the logits of its translation are not finite", printed_));
    return vocabulary_.decode_target(best.ids);
  }

  void add(std::string line) {
    const std::string place = fmt::format("stdin:{}", ++read_);
    if (line.ends_with('\r')) line.pop_back();
    if (read_ == 1 && line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);  // a byte order mark, as in read_lines()
    if (const std::size_t bad = first_bad_utf8(line); bad != std::string::npos)
      throw FileError(place, fmt::format("is not UTF-8 at byte {}", bad + 1));
    if (has_long_word(line)) throw FileError(place, fmt::format("must have words of at most {} bytes", kLongestWord));
    Ids ids = vocabulary_.encode_source(line);
    if (std::int64_t(ids.size()) > most_)
      throw FileError(place, fmt::format("must have at most {} tokens with the end, got {}", most_, ids.size()));
    sources_.push_back(std::move(ids));
  }

  void flush() {
    for (const Hypothesis& best : best_hypotheses(inference_, sources_, options_.decoding, options_.max_tokens)) {
      ++printed_;
      fmt::print("{}\n", translated(best));
    }
    flush_stdout();
    sources_.clear();
  }

  const TranslateOptions& options_;
  std::unique_ptr<Transformer> model_;
  Vocabulary vocabulary_;
  InferenceTransformer inference_;
  std::int64_t most_, read_ = 0, printed_ = 0;  // lines
  std::vector<Ids> sources_;                    // of lines read but not yet printed
};

Answer translate(const TranslateOptions& o) {
  // A user at a terminal wants each answer at once.
  Translator(o).translate(isatty(STDIN_FILENO) ? 1 : o.lines);
  return {};
}

}  // namespace

Action add_translate(CLI::App& command) {
  const auto o = std::make_shared<TranslateOptions>();
  add_model_option(command, o->model, ", with a vocabulary");
  add_decoding_options(command, o->decoding);
  add_max_tokens_option(command, o->max_tokens);
  add_non_finite_option(command, o->non_finite);
  add_number(command, "--lines", o->lines, 1, 100000000, "Lines read before the first is translated; 1 on a terminal");
  add_dtype_option(command, o->dtype, {DType::f32, DType::bf16}, "Precision of weights and products");
  add_device_option(command, o->device);
  command.footer(
      "Lines stay in their order; those without words stay empty.\n"
      "Exit codes: 0, 2 usage, 3 a line cannot be translated, 4 the model cannot be loaded, 5 a number is not finite, "
      "6 device.");
  return [o] { return translate(*o); };
}

}  // namespace foldgrad
