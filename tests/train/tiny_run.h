// A run of `foldgrad train` on nine short pairs of sentences, in a temporary directory.
#pragma once
#include "tests/train/program.h"

namespace foldgrad::testing {

constexpr const char* kTinyConfig = R"([model]
width = 16
ffn_width = 16
heads = 2
encoder_layers = 1
decoder_layers = 1
[norm]
name = "un"
[norm.un]
warmup = 2
window = 2
[train]
steps = 5
max_tokens = 40
warmup = 2
lr = 1e-2
[validate]
every = 3
beam = 2
[output]
log_every = 2
save_every = 2
)";

// Writes nine pairs of sentences. Training and validation use the same nine.
inline void write_tiny_text(const std::string& directory) {
  std::string de, en;
  for (const char* one : {"eins", "zwei", "drei"})
    for (const char* two : {"rot", "gut", "alt"}) {
      de += std::string(one) + " " + two + "\n";
      en += std::string(two) + " " + one + " x\n";
    }
  for (const char* name : {"/train", "/valid"}) {
    write_bytes(directory + name + ".de", de);
    write_bytes(directory + name + ".en", en);
  }
}

class TinyRun : public ProgramFiles {
 protected:
  TinyRun() {
    setenv("OMP_NUM_THREADS", "1", 1);  // with more threads, such small matrix products are slower
    write_tiny_text(files_.path());
    write_bytes(files_ / "config.toml", kTinyConfig);
  }

  std::string arguments(const std::string& out, const std::string& more = "") {
    return "train " + files_ / "config.toml" + " --data-dir " + files_.path() + " --out " + files_ / out + " " + more;
  }
  ProgramResult train(const std::string& out, const std::string& more = "") {
    return run_program(arguments(out, more));
  }
};

}  // namespace foldgrad::testing
