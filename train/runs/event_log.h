// log.jsonl: one JSON object per line and event, in the file as soon as write() returns.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace foldgrad {

class EventLog {
 public:
  // Appends to the file, which is created when it is not there. Resuming gives the offset that the checkpoint holds:
  // what was logged after it is cut off, since training will log it again. A file that is shorter, or has another line
  // there, is cut after its last whole line. Throws FileError.
  explicit EventLog(std::string path, std::optional<std::uint64_t> resume_at = std::nullopt);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // How many bytes before `resume_at` were lost.
  std::uint64_t missing() const { return missing_; }

  // Numbers have the fewest digits that read back as the same f64; those that are not finite become null. Bytes that
  // are not UTF-8 become U+FFFD. Throws std::invalid_argument unless `event` is an object, and FileError; then the file
  // ends with the last whole line, and the log can still be used.
  void write(const nlohmann::ordered_json& event);
  // Behind the last line: what a checkpoint holds.
  std::uint64_t offset() const { return offset_; }
  // Flushes all lines to disk. Throws FileError.
  void sync() const;

 private:
  void cut(std::uint64_t offset);
  std::uint64_t line_end(std::uint64_t offset) const;  // the last one up to there

  std::string path_;
  int descriptor_ = -1;
  std::uint64_t offset_ = 0, missing_ = 0;
};

}  // namespace foldgrad
