// The interface of all normalizers. A model makes one by name at each of its sites:
//
//   auto norm = make_normalizer("un", {{"window", "4"}, {"warmup", "400"}}, "encoder.layers.0.norm1", 512);
//   Var y = norm->apply(x, {.training = true});
//
// docs/normalizers.md has the equations.
#pragma once
#include <memory>
#include <optional>

#include "engine/named_tensors.h"
#include "engine/tape.h"
#include "models/normalizers/inference_form.h"
#include "models/normalizers/options.h"
#include "ops/channel_sums/channel_sums.h"
#include "ops/segments/segments.h"

namespace foldgrad {

struct NormalizerSite;  // defined in models/normalizers/kinds.h
struct ChannelRecord;
using ChannelRecords = std::vector<std::shared_ptr<ChannelRecord>>;  // see ops/channel_norm/channel_record.h

struct NormContext {
  bool training = false;
  // The rows of each sample, for statistics per sample. If null, x's first axis indexes the samples.
  const Segments* samples = nullptr;
  // The number of leading rows that enter channel statistics; by default all rows. Only trace replay sets this member,
  // since the remaining rows of a trace are padding (train/checks/trace.h). Models have no padding rows.
  std::optional<std::int64_t> counted = {};
  std::vector<Var>* penalties = nullptr;  // in training, rbn appends its scalar loss terms here
  Communicator* communicator = nullptr;   // in training, statistics cover all ranks' rows; if null, only x's rows

  ChannelPass channel_pass() const { return {training, counted, communicator}; }
};

// Values for reports, copied from the device.
struct NormDiagnostics {
  struct Means {
    double arithmetic, geometric;  // the geometric mean is 0 until the window is full, since entries start at 0
  };

  std::int64_t iterations = 0, skips = 0;  // numbers of training passes, and of passes that skipped or held a channel
  std::optional<double> least_variance = {}, greatest_variance = {};  // range of the running variance over the channels
  std::vector<Means> window = {};  // one entry for each channel's window of mean squares; empty without windows
  // The number of channels whose factor r [MABN-1] is currently clamped to 1/5 or 5; empty if there is no r.
  std::optional<std::int64_t> clamped = {};
};

// A normalizer at one site of a model.
class Normalizer {
 public:
  explicit Normalizer(const NormalizerSite& site);
  virtual ~Normalizer() = default;
  Normalizer(const Normalizer&) = delete;
  Normalizer& operator=(const Normalizer&) = delete;

  const NormalizerInfo& info() const { return info_; }
  const NormalizerOptions& options() const { return options_; }
  const std::string& site() const { return site_; }
  std::int64_t channels() const { return channels_; }

  // Returns y, of x's shape and dtype; parameters are cast to that dtype. In training, the forward pass updates the
  // state, and so do some backward passes (ops/channel_norm/channel_norm.h). Throws std::invalid_argument unless x is
  // [..., channels], or if an operation rejects x.
  Var apply(const Var& x, const NormContext& context);

  // After this call, training passes append records to `records`, and backward passes complete them. Null turns this
  // off. Recording leaves training bit-identical, so a normalizer that returns x itself records no gradient: this would
  // change the order in which the gradients of x are added.
  void record_into(ChannelRecords* records) { records_ = records; }

  // Returns the parameters, named SITE.weight, SITE.bias and the like. The pointers are valid as long as the normalizer
  // exists.
  virtual std::vector<Parameter*> parameters() { return {}; }

  // Returns the live buffers: the next step uses values that you write into these tensors.
  virtual NamedTensors state() const { return {}; }
  // Returns the buffers that inference uses as running estimates: run_mean, run_var, phi.
  NamedTensors statistics() const;
  NamedTensors snapshot() const { return clone(state()); }
  // Restores a snapshot or a file's tensors. Throws std::invalid_argument unless names, shapes and dtypes match
  // state().
  void restore(const NamedTensors& snapshot);
  // Resets the counters of training forward passes, so that fine-tuning starts with a warm-up again.
  void reset_iterations();
  virtual NormDiagnostics diagnostics() const;

  // Returns the form at inference, or no value if the normalizer declares no form; such a normalizer is never folded.
  // If the form is not offline, because it needs statistics of the current tokens, folding takes SITE.weight or the
  // scalar SITE.scale out of A and sets it to 1, and takes SITE.bias out of B and sets it to 0.
  virtual std::optional<InferenceForm> inference() const { return std::nullopt; }

  // True if statistics cover all tokens of a sample, which must then be computed together.
  virtual bool mixes_tokens() const { return false; }

 protected:
  virtual Var forward(const Var& x, const NormContext& context) = 0;
  // Runs forward() in training and fills the record, by default from x and from the gradient of y.
  virtual Var recorded(const Var& x, const NormContext& context, std::shared_ptr<ChannelRecord> record);
  // Returns the parameter on x's tape in x's dtype.
  static Var on_tape(Parameter& parameter, const Var& x);

 private:
  const NormalizerInfo& info_;  // an element of normalizers(), valid until the program ends
  NormalizerOptions options_;
  std::string site_;
  std::int64_t channels_;
  ChannelRecords* records_ = nullptr;
};

// Makes a normalizer with parameters of this dtype. The state is f64 if the parameters are f64, otherwise f32. Throws
// std::invalid_argument if a name or option is unknown (the message suggests the nearest one), if a value is out of
// range, if the normalizer does not support this number of channels, or if info() and inference() disagree about
// whether the normalizer is offline.
std::unique_ptr<Normalizer> make_normalizer(const std::string& name, const std::map<std::string, std::string>& options,
                                            const std::string& site, std::int64_t channels, DType dtype = DType::f32,
                                            Device device = Device::cpu);

// Returns all normalizers, including those that register_normalizer() added (models/normalizers/kinds.h).
const std::vector<NormalizerInfo>& normalizers();

// Throws std::invalid_argument if the name is unknown; the message has the nearest name and the full list.
const NormalizerInfo& normalizer_info(const std::string& name);

}  // namespace foldgrad
