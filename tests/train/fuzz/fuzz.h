// A fixture for fuzz tests, which read mutants of valid files. A reader must accept a mutant or throw one of our
// exceptions, whose message names the file's directory and contains no text of a library.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <functional>

#include "engine/files/file.h"
#include "tests/harness/file_test.h"
#include "tests/harness/mutator.h"
#include "train/checkpoints/checkpoint.h"
#include "train/config/config.h"

namespace foldgrad::testing {

// soaking() and fuzz_seed() return the settings of scripts/soak: a factor for the number of inputs, and the seed.
inline int soaking() {
  const char* times = std::getenv("FOLDGRAD_SOAK");
  return times ? std::max(1, std::atoi(times)) : 1;
}
inline std::uint64_t fuzz_seed() {
  const char* seed = std::getenv("FOLDGRAD_SEED");
  return seed ? std::strtoull(seed, nullptr, 10) : 1;
}

class Fuzz : public FileTest {
 protected:
  // A function that makes a mutant of a text, usually a method of Mutator.
  using Mutate = std::function<std::string(Mutator&, const std::string&)>;

  // Writes a mutant of the file's content, or of one of `good`, into the file and calls `read`. Repeats this `inputs`
  // times. Of `rarely` mutants, at least one must be accepted and one rejected on average; otherwise the mutants are
  // too harmful or too harmless to test much.
  void fuzz(const std::string& file, const Mutate& mutate, int inputs, int rarely, const std::function<void()>& read,
            std::vector<std::string> good = {}) {
    const std::string path = files_ / file;
    if (good.empty()) good.push_back(read_bytes(path));
    Mutator mutator(fuzz_seed());
    inputs *= soaking();
    std::int64_t accepted = 0, refused = 0;
    for (int i = 0; i < inputs && !HasFailure(); ++i) {
      const std::string mutant = mutate(mutator, good.size() == 1 ? good[0] : mutator.one_of(good));
      write_bytes(path, mutant);
      try {
        read();
        ++accepted;
        continue;
      } catch (const ConfigError& e) {
        check(e.what(), path);
      } catch (const CheckpointError& e) {
        check(e.what(), path);
      } catch (const FileError& e) {
        check(e.what(), path);
      } catch (const std::exception& e) {
        ADD_FAILURE() << "this exception is not meant for bad input: " << e.what();
      }
      ++refused;
      if (HasFailure()) keep(mutant, i);
    }
    write_bytes(path, good[0]);
    if (HasFailure()) return;
    EXPECT_GE(accepted * rarely, inputs) << accepted << " accepted, " << refused << " refused";
    EXPECT_GE(refused * rarely, inputs) << accepted << " accepted, " << refused << " refused";
  }

 private:
  // Checks that the message names the file's directory, and that it does not come from a library.
  void check(const std::string& message, const std::string& path) {
    EXPECT_NE(message.find(files_.path()), message.npos) << path << ": " << message;
    for (const char* foreign :
         {"json.exception", "std::", "basic_string", "vector::", "map::at", "stoll", "stod", ".cc("})
      EXPECT_EQ(message.find(foreign), message.npos) << message;
  }
  void keep(const std::string& mutant, int i) {
    const std::string kept = ::testing::TempDir() + "foldgrad-mutant";
    write_bytes(kept, mutant);
    ADD_FAILURE() << "input " << i << " of seed " << fuzz_seed() << ", saved as " << kept;
  }
};

}  // namespace foldgrad::testing
