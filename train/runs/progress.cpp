#include "train/runs/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "train/system/streams.h"

namespace foldgrad {
namespace {

bool can_draw() {
  const char* terminal = std::getenv("TERM");
  return !has_message_sink() && isatty(STDERR_FILENO) && terminal && std::strcmp(terminal, "dumb") != 0;
}

// Returns false if NO_COLOR is set and not empty (https://no-color.org).
bool colours_wanted() {
  const char* none = std::getenv("NO_COLOR");
  return !none || !*none;
}

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

constexpr std::size_t kBar = 20;

}  // namespace

std::string duration_text(double seconds) {
  const auto s = std::int64_t(std::clamp(seconds + 0.5, 0.0, 1e15));
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string progress_line(std::int64_t step, std::int64_t steps, double steps_per_second, const std::string& status,
                          std::size_t width) {
  const auto done = std::size_t(double(kBar) * std::clamp(double(step) / double(steps), 0.0, 1.0));
  std::string bar(done, '=');
  if (done < kBar) bar += '>';
  bar.resize(kBar, ' ');
  std::string line = fmt::format("[{}] {}/{}", bar, step, steps);
  if (steps_per_second > 0)
    line += fmt::format("  {:.3g} steps/s  {} left", steps_per_second,
                        duration_text(double(steps - step) / steps_per_second));
  if (!status.empty()) line += "  " + status;
  return line.substr(0, width);
}

ProgressLine::ProgressLine(std::int64_t first, std::int64_t steps, std::optional<bool> on_terminal)
    : first_(first),
      steps_(steps),
      on_terminal_(on_terminal.value_or(can_draw())),
      colours_(on_terminal_ && colours_wanted()) {}

ProgressLine::~ProgressLine() { erase(); }

void ProgressLine::erase() {
  if (drawn_) say("\r\x1b[K");
  drawn_ = false;
}

void ProgressLine::at(std::int64_t step) {
  const auto now = Clock::now();
  if (!on_terminal_ || std::chrono::abs(now - last_) < std::chrono::milliseconds(200)) return;
  last_ = now;
  // Leaves one column free, since some terminals begin a new line after a full line.
  say("\r\x1b[K" + progress_line(step, steps_, double(step - first_) / std::max(seconds_since(begin_), 1e-9), status_,
                                 terminal_width() - 1));
  drawn_ = true;
}

void ProgressLine::print(const std::string& line) {
  erase();
  say(printable(line) + "\n");
}

void ProgressLine::warn(const std::string& line) {
  erase();
  say((colours_ ? "\x1b[33mwarning:\x1b[0m " : "warning: ") + printable(line) + "\n");
}

}  // namespace foldgrad
