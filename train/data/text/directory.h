// Directories of parallel text, as a whole: what is in them, whether it is sound, and how to make one.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace foldgrad {

struct Languages {
  std::string source = "de", target = "en";
};

constexpr const char* kDigestFile = "SHA256SUMS";  // as sha256sum writes it, and checks

// Returns the NAMEs with files NAME.SOURCE and NAME.TARGET, in order. Throws FileError for no directory and no NAME.
std::vector<std::string> pair_names(const std::string& directory, const Languages& languages);

struct SideSummary {
  std::int64_t words = 0, distinct = 0, longest = 0;  // words between white space; different words; words of a line
  std::int64_t empty = 0;                             // lines without words
};
SideSummary summarize(const std::vector<std::string>& lines);

// Returns the faults, one message each: pairs that cannot be read, files without their other side, and files that
// `digests` names but are absent or differ. `digests` is a file as kDigestFile; "" takes that of the directory, if it
// is there.
std::vector<std::string> problems(const std::string& directory, const Languages& languages, const std::string& digests);

struct Preparation {
  Languages languages;
  std::map<std::string, std::string> renamed;  // old name to new; val becomes valid without saying
  std::vector<std::string> only;               // these pairs, by their old names; empty: all
  bool lowercase = false;
  std::int64_t sentence_piece = 0;  // pieces of a model learned from train; 0: none is
};

// Writes the pairs of `from`, with line ends "\n", and their digests to `to`. Returns the names. Throws FileError.
std::vector<std::string> prepare(const std::string& from, const std::string& to, const Preparation& options);

}  // namespace foldgrad
