#include "train/runs/event_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "engine/check.h"
#include "engine/files/file.h"

namespace foldgrad {

EventLog::EventLog(std::string path, std::optional<std::uint64_t> resume_at)
    : path_(std::move(path)), descriptor_(open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) throw FileError(path_, "cannot be opened", errno);
  try {
    struct stat status;
    if (fstat(descriptor_, &status) != 0) throw FileError(path_, "cannot be examined", errno);
    offset_ = std::uint64_t(status.st_size);
    if (!resume_at) return;
    cut(line_end(std::min(offset_, *resume_at)));
    missing_ = *resume_at - offset_;
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

EventLog::~EventLog() { close(descriptor_); }

std::uint64_t EventLog::line_end(std::uint64_t offset) const {
  for (char last = 0; offset > 0; --offset) {
    if (pread(descriptor_, &last, 1, off_t(offset - 1)) != 1) throw FileError(path_, "cannot be read", errno);
    if (last == '\n') break;
  }
  return offset;
}

void EventLog::cut(std::uint64_t offset) {
  if (ftruncate(descriptor_, off_t(offset)) != 0) throw FileError(path_, "cannot be cut", errno);
  offset_ = offset;
}

void EventLog::write(const nlohmann::ordered_json& event) {
  FOLDGRAD_CHECK(event.is_object(), "event_log: an event must be an object, got {}", event.type_name());
  const std::string line = event.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t count = ::write(descriptor_, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int error = errno;
      cut(offset_);
      throw FileError(path_, "cannot be written", error);
    }
    done += std::size_t(count);
  }
  offset_ += line.size();
}

void EventLog::sync() const {
  if (fsync(descriptor_) != 0) throw FileError(path_, "cannot be flushed to disk", errno);
}

}  // namespace foldgrad
