// Shows the progress of training on stderr: on a terminal one line that is redrawn, elsewhere plain lines.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "engine/parallel/elapsed.h"

namespace foldgrad {

// Returns "[======>     ] 1200/2000  3.1 steps/s  4:20 left  loss 3.2100", cut to `width` columns.
std::string progress_line(std::int64_t step, std::int64_t steps, double steps_per_second, const std::string& status,
                          std::size_t width);
std::string duration_text(double seconds);  // returns, for example, "4:20" or "1:04:20"

class ProgressLine {
 public:
  // `first` is the step at which this process begins. `on_terminal` is true if the line can be redrawn; the default is
  // true if stderr is a terminal whose TERM is not "dumb".
  ProgressLine(std::int64_t first, std::int64_t steps, std::optional<bool> on_terminal = std::nullopt);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Redraws the line on a terminal, at most five times a second.
  void at(std::int64_t step);
  void set_status(std::string status) { status_ = std::move(status); }
  // Print a permanent line above the redrawn one. Warnings are yellow unless NO_COLOR is set.
  void print(const std::string& line);
  void warn(const std::string& line);
  void erase();  // erases the drawn line, so that other code can print

 private:
  std::int64_t first_, steps_;
  bool on_terminal_, colours_, drawn_ = false;
  std::string status_;
  Clock::time_point begin_ = Clock::now(), last_ = begin_;
};

}  // namespace foldgrad
