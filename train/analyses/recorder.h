// A recorder of normalizers' statistics while a model trains, which trains to the same bits with it and without.
// Outside of its phases it does nothing.
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
  // Records normalizers that outlive it, into DIRECTORY/PHASE.safetensors.
  Recorder(std::vector<Normalizer*> normalizers, const std::vector<RecordPhase>& phases, std::string directory);
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // These read every normalizer's records from the device at the end of an update in one of the phases. What was
  // recorded before of this update and later ones is forgotten.
  void begin(std::int64_t update) override;
  void end(std::int64_t update) override;

  // Continues after `update` with the files of save(). Returns warnings about files that cannot be continued.
  std::vector<std::string> resume(std::int64_t update);
  // Writes what is new since the last time. Throws FileError, and then writes it the next time.
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
  std::vector<ChannelRecords> records_;  // by normalizer, of the update at hand
  std::vector<Phase> phases_;
  std::string directory_;
};

}  // namespace foldgrad
