// The interface of all normalizers. A model asks for one by name at each of its sites:
//
//   auto norm = make_normalizer("un", {{"window", "4"}, {"warmup", "400"}}, "encoder.layers.0.norm1", 512);
//   Var y = norm->apply(x, {.training = true});
//
// docs/normalizers.md states the equations of each.
#pragma once
#include <memory>
#include <optional>

#include "engine/named_tensors.h"
#include "engine/tape.h"
#include "models/normalizers/inference_form.h"
#include "models/normalizers/options.h"
#include "ops/segments/segments.h"

namespace foldgrad {

struct NormalizerSite;  // models/normalizers/kinds.h
struct ChannelRecord;
using ChannelRecords = std::vector<std::shared_ptr<ChannelRecord>>;  // ops/channel_norm/channel_record.h

// Returns a parameter in the dtype of activations. In bf16 an f32 parameter is not cast by a recorded operation: it
// comes rounded, and its gradient stays exact (Tape::parameter). A recording takes the copy that training keeps
// (Parameter::rounded); without one the value is rounded here.
Var parameter_as(Tape& tape, Parameter& parameter, DType dtype);

struct NormContext {
  bool training = false;
  const Segments* samples = nullptr;  // for statistics over a sample: its rows; null: x's first axis is that of samples
  // For statistics per channel: of the rows so many count, the first; by default all. Models never give it: they
  // compute what counts. Traces of the authors' code do (train/checks/trace.h), whose released forms use the other rows
  // too.
  std::optional<std::int64_t> counted = {};
  std::vector<Var>* penalties = nullptr;  // training, terms of shape [] to be added to the loss go here (rbn)
  Communicator* communicator = nullptr;   // training: statistics per channel are of the rows of all ranks; null: of x
};

// Values for reports, read from the device.
struct NormDiagnostics {
  struct Means {
    double arithmetic, geometric;  // 0 until the window is full: its entries are 0 at first
  };

  std::int64_t iterations = 0, skips = 0;  // training forwards; those with a skipped or held channel
  std::optional<double> least_variance = {}, greatest_variance = {};  // of the running variance over the channels
  std::vector<Means> window = {};  // by channel, of the window of mean squares; empty where there is none
  // Channels whose factor r [MABN-1] is held at 1/5 or 5 by the statistics as they are now; empty where there is no r.
  std::optional<std::int64_t> clamped = {};
};

// One site of a model.
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

  // Returns y of x's shape and dtype; parameters of another dtype are cast. In training it writes the state, and so
  // does the backward pass of some (ops/channel_norm/channel_norm.h).
  // Throws std::invalid_argument unless x is [..., channels], and for what the operations refuse.
  Var apply(const Var& x, const NormContext& context);

  // Makes every training pass from now on add what it computed to `records`, which its backward pass completes; null:
  // no more. What is trained has the same bits with it and without; so one whose y is x itself has no gradient of its
  // own there, and records none.
  void record_into(ChannelRecords* records) { records_ = records; }

  // Returns the parameters, named SITE.weight, SITE.bias and the like. They live as long as the normalizer.
  virtual std::vector<Parameter*> parameters() { return {}; }

  // Returns live buffers: what is written into these tensors is what the next step uses.
  virtual NamedTensors state() const { return {}; }
  // Returns those of them that are running estimates and that inference uses: run_mean, run_var, phi.
  NamedTensors statistics() const;
  NamedTensors snapshot() const { return clone(state()); }
  // Restores a snapshot or a file. Throws std::invalid_argument unless names, shapes and dtypes are those of state().
  void restore(const NamedTensors& snapshot);
  // Sets the counters of training forwards to zero, so that fine-tuning begins with a warm-up.
  void reset_iterations();
  virtual NormDiagnostics diagnostics() const;

  // Returns its form. Empty: it says nothing, and is run as it is wherever that is possible. If it is not offline,
  // folding takes SITE.weight, or the one number SITE.scale, out of A and SITE.bias out of B, and leaves them 1 and 0.
  virtual std::optional<InferenceForm> inference() const { return std::nullopt; }

  // Return DeepNorm's constants; 1 for all others. The gain multiplies the initial weights of value and output
  // projections and of both linear layers of a feed-forward block.
  virtual double residual_scale() const { return 1; }
  virtual double initial_gain() const { return 1; }

  // Returns true if its statistics cover all tokens of a sample, so that no token can be computed without the others.
  virtual bool mixes_tokens() const { return false; }
  // Returns true if padding counts in its statistics whatever the model says.
  virtual bool counts_padding() const { return false; }

 protected:
  virtual Var forward(const Var& x, const NormContext& context) = 0;
  // Runs forward() in training and fills its record: by default from x and from what passes back through y.
  virtual Var recorded(const Var& x, const NormContext& context, std::shared_ptr<ChannelRecord> record);
  // Returns the parameter on x's tape, in x's dtype.
  static Var on_tape(Parameter& parameter, const Var& x);

 private:
  const NormalizerInfo& info_;  // of the list, which lives as long as the program
  NormalizerOptions options_;
  std::string site_;
  std::int64_t channels_;
  ChannelRecords* records_ = nullptr;
};

// Makes a normalizer whose parameters have this dtype; the state is f64 where that is, otherwise f32.
// Throws std::invalid_argument for a name or an option that does not exist, naming the nearest, for a value out of
// range, for channels that the normalizer cannot take, and when it is offline by its info() but not by its inference(),
// or the other way round.
std::unique_ptr<Normalizer> make_normalizer(const std::string& name, const std::map<std::string, std::string>& options,
                                            const std::string& site, std::int64_t channels, DType dtype = DType::f32,
                                            Device device = Device::cpu);

// Returns all by name: those of the library, and what register_normalizer() has added (models/normalizers/kinds.h).
const std::vector<NormalizerInfo>& normalizers();

// Throws std::invalid_argument for a name that does not exist, naming the nearest and all that there are.
const NormalizerInfo& normalizer_info(const std::string& name);

}  // namespace foldgrad
