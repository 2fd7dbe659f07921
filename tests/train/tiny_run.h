// A run of `foldgrad train` on nine short sentences, in a directory of its own.
#pragma once
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

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

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Nine sentences, to train and to validate on.
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

class TinyRun : public ::testing::Test {
 protected:
  TinyRun() {
    setenv("OMP_NUM_THREADS", "1", 1);  // such small products are slower with more
    write_tiny_text(files_.path());
    write_bytes(files_ / "config.toml", kTinyConfig);
  }

  std::string arguments(const std::string& out, const std::string& more = "") {
    return "train " + files_ / "config.toml" + " --data-dir " + files_.path() + " --out " + files_ / out + " " + more;
  }
  ProgramResult train(const std::string& out, const std::string& more = "") {
    return run_program(arguments(out, more));
  }
  std::string bytes(const std::string& path) { return read_bytes(files_ / path); }
  bool exists(const std::string& path) { return std::filesystem::exists(files_ / path); }

  // Of log.jsonl, those of one kind.
  std::vector<nlohmann::json> events(const std::string& run, const std::string& kind) {
    std::vector<nlohmann::json> found;
    std::istringstream lines(bytes(run + "/log.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (const auto event = nlohmann::json::parse(line); event.at("event") == kind) found.push_back(event);
    return found;
  }
  void expect_same_numbers(const std::string& run, const std::string& other, const std::string& step) {
    for (const char* file : {"model", "optimizer", "norm_state"}) {
      const std::string name = "/checkpoints/" + step + "/" + file + ".safetensors";
      EXPECT_TRUE(bytes(run + name) == bytes(other + name)) << run << " and " << other << ": " << file;
    }
  }

  TemporaryDirectory files_;
};

}  // namespace foldgrad::testing
