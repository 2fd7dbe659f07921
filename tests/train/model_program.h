// Tests of commands that take a model: a small one with words, in a directory of its own.
#pragma once
#include <nlohmann/json.hpp>

#include "tests/models/transformer/tiny_translation.h"
#include "tests/train/program.h"
#include "train/commands/load_transformer.h"

namespace foldgrad::testing {

class ModelProgram : public ::testing::Test {
 protected:
  explicit ModelProgram(const std::string& normalizer = "un")
      : vocabulary_(Vocabulary::words(Dictionary::of_words({"ein", "zwei", "drei", "vier", "fünf"}),
                                      Dictionary::of_words({"one", "two", "three", "four", "five"}), false)) {
    TransformerConfig config = tiny_config(normalizer);
    config.source_vocabulary = vocabulary_.source_size();
    config.target_vocabulary = vocabulary_.target_size();
    config.share_embeddings = "decoder";
    model_ = std::make_unique<Transformer>(config, 3);
    randomize(*model_, 5, 0.6);
    vocabulary_.save(files_ / "vocabulary");
    write_model_directory(files_ / "m", *model_, files_ / "vocabulary");
    write_bytes(files_ / "in.de", kSource);
  }

  // `arguments` with @ for the directory of the files.
  ProgramResult run(std::string arguments) {
    for (std::size_t at = 0; (at = arguments.find('@', at)) != std::string::npos;)
      arguments.replace(at, 1, files_.path() + "/");
    return run_program(arguments);
  }
  void expect_error(const std::string& arguments, int exit_code, std::string message) {
    for (std::size_t at = 0; (at = message.find('@', at)) != std::string::npos;)
      message.replace(at, 1, files_.path() + "/");
    const ProgramResult r = run(arguments);
    EXPECT_EQ(r.exit_code, exit_code) << arguments;
    EXPECT_EQ(r.err, "error: " + message + "\n") << arguments;
  }

  static constexpr const char* kSource = "ein zwei\nvier drei zwei ein\nzwei\ndrei ein vier\nein ein\n";
  TemporaryDirectory files_;
  Vocabulary vocabulary_;
  std::unique_ptr<Transformer> model_;
};

}  // namespace foldgrad::testing
