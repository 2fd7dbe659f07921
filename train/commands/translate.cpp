// foldgrad translate: translates lines from stdin to stdout.
#include <unistd.h>

#include "train/commands/command.h"
#include "train/commands/load_model_as.h"
#include "train/system/device.h"
#include "train/system/streams.h"
#include "train/tasks/translation/translator.h"

namespace foldgrad {
namespace {

struct TranslateOptions {
  std::string model, device = "auto";
  std::int64_t lines = 1000;
  TranslatorOptions translator;
};

class LineTranslator {
 public:
  explicit LineTranslator(const TranslateOptions& options)
      : model_(
            load_transformer(options.model, DType::f32, require_device(options.device), options.translator.non_finite)),
        translator_(*model_, load_vocabulary(find_model_directory(options.model), model_->config()),
                    options.translator) {}

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
  static std::string place(std::int64_t line) { return fmt::format("stdin:{}", line); }

  void add(std::string line) {
    // removes a byte order mark, as read_lines() does
    if (++read_ == 1 && line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);
    sources_.push_back(translator_.encode(std::move(line), place(read_)));
  }

  void flush() {
    for (const Hypothesis& best : translator_.translate(sources_))
      fmt::print("{}\n", translator_.decode(best, place(++printed_)));
    flush_stdout();
    sources_.clear();
  }

  std::unique_ptr<Transformer> model_;
  Translator translator_;
  std::int64_t read_ = 0, printed_ = 0;  // lines
  std::vector<Ids> sources_;             // source lines read but not yet printed
};

Answer translate(const TranslateOptions& o) {
  // A user at a terminal wants each answer immediately.
  LineTranslator(o).translate(isatty(STDIN_FILENO) ? 1 : o.lines);
  return {};
}

}  // namespace

Action add_translate(CLI::App& command) {
  const auto o = std::make_shared<TranslateOptions>();
  add_model_option(command, o->model, ", with a vocabulary");
  add_decoding_options(command, o->translator.decoding);
  add_max_tokens_option(command, o->translator.max_tokens);
  add_non_finite_option(command, o->translator.non_finite);
  add_number(command, "--lines", o->lines, 1, 100000000,
             "Number of lines to read before translating the first; 1 on a terminal");
  add_dtype_option(command, o->translator.dtype, {DType::f32, DType::bf16}, "Precision of weights and matrix products");
  add_device_option(command, o->device);
  command.footer(
      "Lines keep their order; lines without words stay empty.\nExit codes: 0 success, 2 usage error, 3 a line cannot "
      "be translated, 4 the model cannot be loaded, 5 a number is not finite, 6 device error.");
  return [o] { return translate(*o); };
}

}  // namespace foldgrad
