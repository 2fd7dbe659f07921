#include "train/analyses/recorder.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "engine/check.h"
#include "engine/files/atomic_file.h"
#include "train/analyses/channel_values.h"

namespace foldgrad {
namespace {

void append_pass(SiteRecording& to, const ChannelValues& values) {
  const std::int64_t rows = std::int64_t(to.q.size()) / to.channels;
  const auto append = [&to](auto& rows, const auto& row) {
    rows.insert(rows.end(), row.begin(), row.end());
    FOLDGRAD_CHECK(rows.empty() || rows.size() == to.q.size(),
                   "record: {} has a gradient in some passes but not in others", to.site);
  };
  append(to.q, values.q);
  append(to.G, values.G);
  append(to.var_hat, values.var_hat);
  append(to.psi, values.psi);
  append(to.flag, values.flags);
  // If the first rows lack dx because an earlier version recorded them, later rows omit it, too.
  if (values.slope.empty() || std::int64_t(to.dx.size()) != rows * kGradientNumbers) return;
  const GradientAgreement a = gradient_agreement(values);
  for (const double number : {a.cosine, a.norm_ratio, a.lambda_below_1}) to.dx.push_back(float(number));
}

// Returns the first row of a recording that belongs to `update` or to a later update.
std::int64_t row_of(const Recording& recording, std::int64_t update) {
  return std::ranges::lower_bound(recording.updates, update) - recording.updates.begin();
}

}  // namespace

Recorder::Recorder(std::vector<Normalizer*> normalizers, const std::vector<RecordPhase>& phases, std::string directory)
    : normalizers_(std::move(normalizers)), records_(normalizers_.size()), directory_(std::move(directory)) {
  for (const RecordPhase& of : phases) {
    Recording empty;
    for (const Normalizer* norm : normalizers_) {
      empty.normalizer = norm->info().name;
      empty.sites.push_back({.site = norm->site(), .channels = norm->channels()});
    }
    phases_.push_back({of, std::move(empty)});
  }
}

Recorder::~Recorder() { watch(false); }

void Recorder::watch(bool on) {
  for (std::size_t i = 0; i < normalizers_.size(); ++i) {
    records_[i].clear();
    normalizers_[i]->record_into(on ? &records_[i] : nullptr);
  }
}

bool Recorder::records(std::int64_t update) const {
  return std::ranges::any_of(phases_, [=](const Phase& p) { return update >= p.of.first && update <= p.of.last; });
}

void Recorder::begin(std::int64_t update) {
  if (!phases_.empty()) watch(records(update));
}

void Recorder::end(std::int64_t update) {
  for (Phase& phase : phases_) {
    if (const std::int64_t row = row_of(phase.recording, update); row < phase.recording.rows()) {
      phase.recording.truncate(row);
      phase.unsaved = true;
    }
    if (update < phase.of.first || update > phase.of.last) continue;
    const std::size_t batches = records_.empty() ? 0 : records_[0].size();
    for (std::size_t i = 0; i < records_.size(); ++i) {
      FOLDGRAD_CHECK(records_[i].size() == batches,
                     "record: {} is applied {} times in an update, but {} is applied {} times", normalizers_[0]->site(),
                     batches, normalizers_[i]->site(), records_[i].size());
      for (const auto& record : records_[i]) append_pass(phase.recording.sites[i], channel_values(*record));
    }
    phase.recording.updates.insert(phase.recording.updates.end(), batches, update);
    phase.unsaved = true;
  }
  if (records(update)) watch(false);
}

std::vector<std::string> Recorder::resume(std::int64_t update) {
  std::vector<std::string> warnings;
  for (Phase& phase : phases_) {
    const std::string path = path_of(phase);
    const bool there = file_exists(path);
    phase.unsaved = there;  // rows after `update` must be removed from the file
    if (update < phase.of.first) continue;
    if (!there) {
      warnings.push_back(fmt::format("{}: is missing, so the recording up to update {} is lost", path, update));
      continue;
    }
    try {
      Recording before = read_recording(path);
      if (!before.like(phase.recording)) throw FileError(path, "is not a recording of this run's model");
      before.truncate(row_of(before, std::min(update, phase.of.last) + 1));
      if (before.rows() > 0 && before.updates.front() < phase.of.first)
        throw FileError(
            path, fmt::format("begins at update {}, before the phase set by record.from", before.updates.front()));
      phase.recording = std::move(before);
    } catch (const FileError& e) {
      warnings.push_back(fmt::format("{}; its earlier values are lost", e.what()));
    }
  }
  return warnings;
}

void Recorder::save() {
  for (Phase& phase : phases_) {
    if (!phase.unsaved) continue;
    if (phase.recording.rows() > 0) {
      make_directories(directory_);
      write_recording(path_of(phase), phase.recording);
    } else if (std::error_code error; !std::filesystem::remove(path_of(phase), error) && error) {
      throw FileError(path_of(phase), "cannot be removed", error.value());
    }
    phase.unsaved = false;
  }
}

}  // namespace foldgrad
