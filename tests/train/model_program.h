// A fixture for tests of commands that take a model. Its directory contains a small translation model, `m`, the model's
// vocabulary, and five pairs of sentences, `in.de` and `out.en`.
#pragma once
#include "tests/models/transformer/tiny_translation.h"
#include "tests/train/program.h"
#include "train/checkpoints/checkpoint.h"
#include "train/commands/load_model_as.h"
#include "train/tasks/translation/vocabulary.h"

namespace foldgrad::testing {

class ModelProgram : public ProgramFiles {
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
    write("in.de", kSource);
    write("out.en", "one two\nfour three one\nfive\none\ntwo three four five\n");
  }

  // Saves the model as checkpoint `step` of the run in @run.
  void save_step(std::int64_t step, std::int64_t best = -1, bool with_vocabulary = false) const {
    CheckpointContents c;
    c.step = step, c.model = model_->values(), c.norm_state = model_->state();
    std::filesystem::create_directories(files_ / "run");
    save_checkpoint(files_ / "run/checkpoints", c, {.best = best, .companions = [&](const std::string& to) {
                                                      write_model_config(to, *model_);
                                                      if (with_vocabulary) vocabulary_.save(to + "/vocabulary");
                                                    }});
  }

  static constexpr const char* kSource = "ein zwei\nvier drei zwei ein\nzwei\ndrei ein vier\nein ein\n";
  static constexpr const char* kText = " --source @in.de --reference @out.en ";
  Vocabulary vocabulary_;
  std::unique_ptr<Transformer> model_;
};

}  // namespace foldgrad::testing
