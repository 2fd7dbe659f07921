// Records the normalizers' statistics while a model trains. Recording leaves training bit-identical. Outside its phases
// the recorder does nothing.
#pragma once
#include "models/normalizers/normalizer.h"
#include "train/analyses/recording.h"
#include "train/loop/trainer.h"

namespace foldgrad {

struct RecordPhase {
  std::string name;
  std::int64_t first, last;  // numbers of the first and the last update
};

class Recorder final : public UpdateObserver {
 public:
  // Records into DIRECTORY/PHASE.safetensors. The normalizers must outlive the recorder.
  Recorder(std::vector<Normalizer*> normalizers, const std::vector<RecordPhase>& phases, std::string directory);
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Within a phase, end() reads the records of every normalizer from the device. It first drops the rows that an
  // earlier attempt recorded for this and later updates.
  void begin(std::int64_t update) override;
  void end(std::int64_t update) override;

  // Loads the files that save() wrote, in order to continue them after `update`. Returns warnings about files that
  // cannot be continued.
  std::vector<std::string> resume(std::int64_t update);
  // Writes the files of phases that changed since the last call. Throws FileError; the next call then tries again.
  void save();

 private:
  struct Phase {
    RecordPhase of;
    Recording recording;
    bool unsaved = false;
  };

  bool records(std::int64_t update) const;
  void watch(bool on);
  std::string path_of(const Phase& phase) const { return directory_ + "/" + phase.of.name + ".safetensors"; }

  std::vector<Normalizer*> normalizers_;
  std::vector<ChannelRecords> records_;  // each normalizer's records of the current update
  std::vector<Phase> phases_;
  std::string directory_;
};

}  // namespace foldgrad
