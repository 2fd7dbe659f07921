// The interface through which training, folding, files and checks use a model. Each family has its own folder and
// derives from Model; other code need not know a model's family.
#pragma once
#include <map>
#include <memory>

#include "models/forward_pass.h"
#include "models/model_parts.h"

namespace foldgrad {

struct FoldedGraph;

// Returns the number of examples in a batch. A tensor NAME has one row per example. If the batch also has NAME_lengths,
// i64 [examples], NAME instead has NAME_lengths[i] rows for example i, one example after another. For instance, source
// [3] with source_lengths {2, 1} holds two sentences.
std::int64_t examples_in(const NamedTensors& batch);
// Returns examples `first` to `last` - 1. Throws std::invalid_argument if an entry of a `_lengths` tensor is negative.
NamedTensors part_of(const NamedTensors& batch, std::int64_t first, std::int64_t last);

class Model {
 public:
  Model(DType dtype, Device device) : dtype_(dtype), device_(device) {}
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  DType dtype() const { return dtype_; }  // type of the parameters
  Device device() const { return device_; }

  // Returns the family's name in the table of families (train/tasks/families.h), such as "transformer".
  virtual const char* family() const = 0;

  // Return all parts in the order of the forward pass. A shared part is returned once.
  std::vector<Parameter*> parameters() const { return parts().parameters; }
  std::vector<Normalizer*> normalizers() const { return parts().normalizers; }
  // Returns the last layer's parameters, which adaptive clipping can skip.
  std::vector<Parameter*> output_parameters() const { return parts().output; }
  // Returns the parameters that keep their initial values, such as a table of sines; optimizers skip them.
  std::vector<Parameter*> fixed_parameters() const { return parts().fixed; }
  // Returns diagnostics of the last training pass, by name, for the log.
  virtual std::map<std::string, double> diagnostics() const { return {}; }
  // Returns the parameters that are not weight matrices: biases, gains, learned positions and the class token. Weight
  // decay can skip them.
  std::vector<Parameter*> vectors() const;
  std::int64_t parameter_count() const;

  // Returns logits [rows, classes] for `inputs`, a batch on any device. The family defines the names of its inputs.
  virtual Var forward(const NamedTensors& inputs, const ForwardPass& pass) = 0;
  // Returns the cross entropy of `logits` and inputs.at("target"), summed over the targets.
  virtual Var loss_of(const Var& logits, const NamedTensors& inputs, double label_smoothing) = 0;
  Var loss(const NamedTensors& inputs, const ForwardPass& pass, double label_smoothing) {
    return loss_of(forward(inputs, pass), inputs, label_smoothing);
  }

  // Returns the smallest inputs that run every operation. graph_of() records the forward pass on them.
  virtual NamedTensors smallest_inputs() const = 0;
  // Returns random inputs, with "target", to compare models in checks and certificates. Equal seeds give equal inputs.
  virtual NamedTensors random_inputs(std::uint64_t seed) const = 0;

  // Returns a new model with the same configuration, whose parameters are all 0. If `folded` is given, the model has
  // only the normalizers that folding has left.
  virtual std::unique_ptr<Model> alike(DType dtype, Device device, const FoldedGraph* folded = nullptr) const = 0;
  // Returns an equivalent model that folding can handle, for example one whose embeddings are stored after fixnorm has
  // normalized them. Returns null if folding can handle this model as it is.
  virtual std::unique_ptr<Model> foldable() { return nullptr; }

  // Writes the model as ONNX (docs/onnx.md) and returns the names of the graphs' files. Creates `directory`. Replaces
  // existing files only after all new ones are written. Throws std::invalid_argument if the model is not f32 on the
  // CPU, a normalizer has statistics over tokens, the weights take 2 GiB or more, the padding id is also the
  // end-of-sentence id, or the files would replace a foldgrad model. Also throws FileError.
  virtual std::vector<std::string> write_onnx(const std::string& directory) = 0;

  // Returns the parameters by name.
  NamedTensors values() const;
  // Returns the live buffers of all normalizers (Normalizer::state()), named SITE.NAME.
  NamedTensors state() const;
  // Returns the buffers of Normalizer::statistics(), for all normalizers.
  NamedTensors statistics() const;
  NamedTensors snapshot() const { return clone(state()); }
  // Returns state() without the counters that `saved` lacks: files of version 0.3 and earlier lack some counters.
  NamedTensors state_for(const NamedTensors& saved) const;
  // Restores a snapshot. Throws std::invalid_argument, before writing anything, unless names, shapes and dtypes match
  // state_for(snapshot).
  void restore(const NamedTensors& snapshot);
  // Copies the parameters and state of a model with the same configuration, on any device and in any dtype.
  void copy_from(const Model& other);
  std::unique_ptr<Model> copy(DType dtype, Device device) const;

 protected:
  virtual void list(ModelParts& parts) = 0;

 private:
  ModelParts parts() const;

  DType dtype_;
  Device device_;
};

// Computes logits [rows, classes] at inference in `dtype` and returns them in f64 on the host.
Tensor inference_logits(Model& model, const NamedTensors& inputs, DType dtype);

}  // namespace foldgrad
