// The contents of a run's log.jsonl, for reports and comparisons.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace foldgrad {

struct RunLog {
  std::string path, name;  // the run's directory, and its name in tables
  std::vector<nlohmann::ordered_json> events;

  std::vector<const nlohmann::ordered_json*> of_kind(const std::string& event) const;
};

// Throws FileError if there is no log or if a line is not an event; the message names the line, the field, its required
// type and its value. Skips an incomplete last line, since it is still being written.
RunLog read_run_log(const std::string& run);
// Reads several logs and gives them names that distinguish them.
std::vector<RunLog> read_run_logs(const std::vector<std::string>& runs);
// Returns for each path its shortest suffix of whole components that no other path has: "a/un", "b/un" and "ln" for
// a/un, b/un and b/ln. Throws std::invalid_argument if a path is repeated.
std::vector<std::string> distinct_names(const std::vector<std::string>& paths);

// Returns the content of one of a run's files, or "" if it is missing, as in a run that was copied only in part or has
// just begun.
std::string text_or_nothing(const std::string& path);

// Returns the settings of the run in this directory, as text: {"train.lr": "0.0005", ...}. The object is empty if there
// is no config.toml. Throws FileError if the file is not TOML.
nlohmann::ordered_json settings_of(const std::string& run);

struct RunSummary {
  std::string name, norm;
  std::int64_t steps = 0, parameters = 0;  // the number of steps made, not the number requested
  std::string outcome;                     // "finished", "out of patience", "unfinished" or "diverged"
  std::string score = "bleu";              // name of the deciding score; older logs lack it
  bool smaller_is_better = false;          // true if smaller values of that score are better
  struct Best {
    std::int64_t step;
    std::vector<std::pair<std::string, double>> scores;  // by name, in the order of the log
    std::string signature;                               // signature of the deciding score; may be empty

    double at(const std::string& name) const;  // NaN if there is no such score
  };
  // The validation with the best deciding score and, among equal scores, the smallest loss. If validations used the
  // test data, the last validation.
  std::optional<Best> best;
  bool validated_on_test = false;
  // The number of training passes before the normalizer uses its averages, and the number of passes made.
  std::int64_t norm_warmup = 0, norm_passes = 0;
  std::int64_t skips = 0;     // number of skips over all normalizers
  std::int64_t failures = 0;  // number of updates skipped or rolled back because a number was not finite
  double seconds = 0;         // time for training and validation

  bool in_warmup() const { return norm_passes > 0 && norm_passes < norm_warmup; }
};

RunSummary summary_of(const RunLog& log);

// Returns the summary's members by name. There is no "best" if there was no validation.
nlohmann::ordered_json summary_json(const RunSummary& summary);

}  // namespace foldgrad
