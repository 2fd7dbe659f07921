// Runs on a text of a few words, with a decoder-only Transformer as small as one can be.
#pragma once
#include "tests/train/runs/settings_run.h"

namespace foldgrad::testing {

inline const std::string kGptConfig =
    settings_config("family = \"gpt\"\ncontext = 8\ndropout = 0\nattention_dropout = 0", "directory = \"text\"", 4);

// 545 characters, 14 different ones, all of which are in every tenth.
inline std::string few_words() {
  const std::vector<std::string> words{"das", "alte", "haus", "steht", "l\u00f6w", "in"};
  std::string text;
  for (std::size_t i = 0; i < 120; ++i) text += words[i * i % 11 % 7] + (i % 4 == 3 ? "\n" : " ");  // squares: 0 to 5
  return text;
}

inline void write_language_text(const std::string& directory, const std::string& text = few_words()) {
  std::filesystem::create_directories(directory + "/text");
  write_bytes(directory + "/text/a.txt", text);
}

class LanguageRun : public SettingsRun {
 protected:
  LanguageRun() : SettingsRun(kGptConfig) { write_language_text(files_.path()); }
};

}  // namespace foldgrad::testing
