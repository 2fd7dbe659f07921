// foldgrad generate: generates text with a language model and prints it token by token.
#include "engine/files/file.h"
#include "models/gpt/sampling.h"
#include "train/checks/finite.h"
#include "train/commands/command.h"
#include "train/commands/load_model_as.h"
#include "train/data/lines.h"
#include "train/system/device.h"
#include "train/system/streams.h"
#include "train/system/unicode.h"
#include "train/tasks/language/language.h"

namespace foldgrad {
namespace {

struct GenerateOptions {
  std::string model, prompt, prompt_file, device = "auto";
  DType dtype = DType::f32;
  SamplingOptions sampling;
  std::int64_t length = 500, samples = 1, seed = 1;
  NonFinite non_finite = NonFinite::refuse;
};

// Returns the lines of stdin. Treats line endings and a byte order mark as read_lines() does.
std::vector<std::string> lines_of_stdin() {
  std::vector<std::string> lines;
  for (std::string line; read_line_of_stdin(line); lines.push_back(line)) {
    if (lines.empty() && line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);  // removes a byte order mark
    if (line.ends_with('\r')) line.pop_back();
    if (const std::size_t bad = first_bad_utf8(line); bad != line.npos)
      throw FileError(fmt::format("stdin:{}", lines.size() + 1), fmt::format("is not UTF-8 at byte {}", bad + 1));
  }
  return lines;
}

// Returns the prompt without the newline at the end of a file or of stdin. An empty prompt becomes a newline.
std::string prompt_text(const GenerateOptions& o) {
  std::string text = o.prompt;
  if (!o.prompt_file.empty())
    text = fmt::format("{}", fmt::join(read_lines(o.prompt_file), "\n"));
  else if (o.prompt == "-")
    text = fmt::format("{}", fmt::join(lines_of_stdin(), "\n"));
  return text.empty() ? "\n" : text;
}

// Prints one text as it grows. If a character consists of several tokens, waits for the last of them.
class Printer {
 public:
  explicit Printer(const TextVocabulary& vocabulary) : vocabulary_(vocabulary) {}
  void add(std::int64_t token) {
    ids_.push_back(token);
    const bool unfinished = vocabulary_.decode(ids_).ends_with("\xef\xbf\xbd");
    if (unfinished && ids_.size() < kMostBytes) return;
    // If four bytes form no character, prints the first byte as invalid; the other bytes may still form a character.
    const auto done = unfinished ? ids_.begin() + 1 : ids_.end();
    fmt::print("{}", vocabulary_.decode({ids_.begin(), done}));
    flush_stdout();
    ids_.erase(ids_.begin(), done);
  }
  void end() const { fmt::print("{}\n", vocabulary_.decode(ids_)); }

 private:
  static constexpr std::size_t kMostBytes = 4;  // of one UTF-8 character
  const TextVocabulary& vocabulary_;
  Ids ids_;
};

Answer generate_text(GenerateOptions o) {
  o.prompt = prompt_text(o);
  const auto gpt =
      load_model_as<Gpt>("a language model (gpt)", o.model, DType::f32, require_device(o.device), o.non_finite);
  const TextVocabulary vocabulary = load_text_vocabulary(find_model_directory(o.model), gpt->config());
  const std::vector<Ids> prompts(std::size_t(o.samples), vocabulary.encode_known("--prompt", o.prompt));
  std::vector<Ids> texts = prompts;
  SamplingOptions sampling = o.sampling;
  sampling.seed = std::uint64_t(o.seed);

  GptDecoder decoder(*gpt, o.dtype);
  Printer printer(vocabulary);
  const bool one = o.samples == 1;
  if (one) fmt::print("{}", o.prompt);
  const bool finite = generate(decoder, prompts, o.length, sampling, [&](std::size_t text, std::int64_t token) {
    texts[text].push_back(token);
    if (one) printer.add(token);
  });
  if (one) printer.end();
  for (std::size_t s = 0; s < texts.size() && !one; ++s)
    fmt::print("--- {} of {} ---\n{}\n", s + 1, texts.size(), vocabulary.decode(texts[s]));
  if (!finite) throw NonFiniteError("generate: the logits of the next token are not finite");
  return {};
}

}  // namespace

Action add_generate(CLI::App& command) {
  const auto o = std::make_shared<GenerateOptions>();
  add_model_option(command, o->model, "; must be a language model with its vocabulary");
  CLI::Option* prompt = command.add_option("--prompt", o->prompt,
                                           "Prompt to continue; - reads it from standard input (default: a newline)");
  command.add_option("--prompt-file", o->prompt_file, "File with the prompt; the newline at its end is ignored")
      ->excludes(prompt);
  add_number(
      command, "--temperature", o->sampling.temperature, 0, 100,
      "Divisor of the logits: values below 1 make likely tokens likelier; 0 always chooses the most likely token");
  add_number(command, "--top-k", o->sampling.top_k, 0, 100000000,
             "Sample from the K most likely tokens; 0 means all tokens");
  add_number(command, "--top-p", o->sampling.top_p, 0, 1,
             "Sample from the smallest set of most likely tokens whose probabilities add up to P; 1 means all tokens");
  add_number(command, "--seed", o->seed, 0, 1000000000, "Seed for sampling; the same seed generates the same text");
  add_number(command, "--length", o->length, 1, 100000000, "Tokens to write");
  add_number(command, "--samples", o->samples, 1, 10000,
             "Number of texts to generate at once; several texts are printed at the end");
  add_dtype_option(command, o->dtype, {DType::f32, DType::bf16}, "Precision of weights and matrix products");
  add_device_option(command, o->device);
  add_non_finite_option(command, o->non_finite);
  command.footer(
      "If a text is longer than the model's context, only the end of the text is used.\nExit codes: 0 success, 2 usage "
      "error, 4 the model cannot be loaded, 5 a number is not finite, 6 device error.");
  return [o] { return generate_text(*o); };
}

}  // namespace foldgrad
