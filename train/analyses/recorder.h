// Records normalizers' statistics while a model trains. Recording changes no trained bit; outside its phases the
// recorder does nothing.
#pragma once
#include "models/normalizers/normalizer.h"
#include "train/analyses/recording.h"
#include "train/loop/trainer.h"

namespace foldgrad {

struct RecordPhase {
  std::string name;
  std::int64_t first, last;  // updates
};

class Recorder final : public UpdateObserver {
 public:
  // Records normalizers, which must outlive the recorder, into DIRECTORY/PHASE.safetensors.
  Recorder(std::vector<Normalizer*> normalizers, const std::vector<RecordPhase>& phases, std::string directory);
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // In one of the phases, end() reads every normalizer's records from the device. Records of this update and of later
  // ones from an earlier attempt are dropped.
  void begin(std::int64_t update) override;
  void end(std::int64_t update) override;

  // Continues after `update` with the files that save() wrote. Returns warnings about files that cannot be continued.
  std::vector<std::string> resume(std::int64_t update);
  // Writes the rows since the last call. Throws FileError; the next call then writes them.
  void save();

 private:
  struct Phase {
    RecordPhase of;
    Recording recording;
    bool unsaved = false;
  };

  Phase* phase_of(std::int64_t update);
  void watch(bool on);
  std::string path_of(const Phase& phase) const { return directory_ + "/" + phase.of.name + ".safetensors"; }

  std::vector<Normalizer*> normalizers_;
  std::vector<ChannelRecords> records_;  // by normalizer, of the current update
  std::vector<Phase> phases_;
  std::string directory_;
};

}  // namespace foldgrad
