#include "train/runs/logger.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "engine/check.h"
#include "engine/files/file.h"
#include "engine/gemm/gemm.h"
#include "train/analyses/layer_statistics.h"
#include "train/system/device.h"
#include "train/system/streams.h"

namespace foldgrad {

EventLog::EventLog(std::string path, std::uint64_t resume_at)
    : path_(std::move(path)), descriptor_(open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) throw FileError(path_, "cannot be opened", errno);
  try {
    struct stat status;
    if (fstat(descriptor_, &status) != 0) throw FileError(path_, "cannot be examined", errno);
    cut(line_end(std::min(std::uint64_t(status.st_size), resume_at)));
    missing_ = resume_at - offset_;
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
  FOLDGRAD_CHECK(event.is_object(), "log: an event must be an object, got {}", event.type_name());
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

RunLogger::RunLogger(const std::string& path, std::uint64_t offset, std::int64_t first, std::int64_t steps,
                     std::function<void(const nlohmann::ordered_json&)> on_event)
    : steps_(steps), on_event_(std::move(on_event)), log_(path, offset), terminal_(first, steps) {
  if (log_.missing() > 0)
    say("warning: {}: {} bytes that the file had when the checkpoint was saved are missing\n", path, log_.missing());
}

void RunLogger::started(std::int64_t step, Task& task, const ExperimentConfig& config,
                        const std::map<std::string, std::string>& notes) {
  nlohmann::ordered_json event{{"event", "start"},
                               {"step", step},
                               {"steps", steps_},
                               {"norm", config.blocks().normalizer},
                               {"norm_warmup", norm_warmup(config.blocks()).iterations},
                               {"parameters", task.model().parameter_count()},
                               {"score", task.facts().deciding_score},
                               {"device", name_of_chosen(task.model().device())},
                               {"tf32", tf32_allowed()}};
  if (task.facts().smaller_is_better) event["smaller_is_better"] = true;
  if (const std::int64_t epochs = config.train.epochs; epochs > 0) {
    event["epochs"] = epochs;
    terminal_.print(fmt::format("{} epochs of {} batches: {} updates", epochs, task.batches().per_epoch(), steps_));
  }
  if (task.facts().validates_on_test) {
    event["validated_on"] = "test";
    terminal_.print(fmt::format("validated on {}: no best checkpoint is selected, so the last one is used",
                                task.facts().test_data()));
  }
  for (const auto& [name, note] : notes) {
    if (note.empty()) continue;
    event[name] = note;
    terminal_.print(note);
  }
  log(std::move(event));
}

void RunLogger::trained(const TrainingReport& r, const std::string& unit_of_work,
                        const std::map<std::string, double>& diagnostics) {
  const std::string speed = fmt::format("{:.0f} {}/s", r.work_per_second(), unit_of_work);
  terminal_.set_status(fmt::format("loss {:.4f}  {}", r.loss, speed));
  terminal_.print(fmt::format("step {:>6}/{}  loss {:7.4f}  gradient {:7.3f}  lr {:.2e}  {}", r.updates, steps_, r.loss,
                              r.gradient_norm, r.lr, speed));
  nlohmann::ordered_json event{{"event", "train"},    {"step", r.updates},
                               {"loss", r.loss},      {"gradient_norm", r.gradient_norm},
                               {"lr", r.lr},          {unit_of_work + "_per_second", r.work_per_second()},
                               {"seconds", r.seconds}};
  if (!diagnostics.empty()) event["diagnostics"] = diagnostics;
  log(std::move(event));
}

void RunLogger::validated(std::int64_t step, const Validation& v, double seconds) {
  if (!std::exchange(told_signatures_, true) && !v.signatures.empty()) terminal_.print(v.signatures);
  terminal_.print(fmt::format("step {:>6}  validation: {}", step, v.short_text));
  nlohmann::ordered_json event{{"event", "validate"}, {"step", step}};
  for (const auto& [name, value] : v.scores) event[name] = value;
  for (const auto& [name, text] : v.notes) event[name] = text;
  event["seconds"] = seconds;
  log(std::move(event));
}

void RunLogger::layers(std::int64_t step, const std::vector<Parameter*>& trained, Model& model) {
  log({{"event", "layers"},
       {"step", step},
       {"gradient_norms", gradient_norms(trained)},
       {"normalizers", normalizer_statistics(model.normalizers())}});
}

void RunLogger::not_finite(std::int64_t step, const std::string& action, const std::string& failure) {
  terminal_.warn(fmt::format("{}: {}", action, failure));
  log({{"event", "not_finite"}, {"step", step}, {"action", action}, {"message", failure}});
}

void RunLogger::diverged(std::int64_t step, const std::string& message) {
  log({{"event", "diverged"}, {"step", step}, {"message", message}});
}

void RunLogger::ended(std::int64_t step, const std::string& outcome) {
  log({{"event", "end"}, {"step", step}, {"outcome", outcome}});
}

// Logs an event. Events that cannot be written to the disk are kept and written later.
void RunLogger::log(nlohmann::ordered_json event) {
  if (on_event_) on_event_(event);
  const bool refused_before = !unlogged_.empty();
  unlogged_.push_back(std::move(event));
  try {
    write_unlogged();
  } catch (const FileError& e) {
    if (!refused_before) terminal_.warn(e.what());
  }
}

void RunLogger::write_unlogged() {
  for (; !unlogged_.empty(); unlogged_.erase(unlogged_.begin())) log_.write(unlogged_.front());
}

void RunLogger::retry() {
  try {
    write_unlogged();
  } catch (const FileError&) {  // log() has already warned
  }
}

}  // namespace foldgrad
