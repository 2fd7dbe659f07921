// A model as training, folding, files and checks see it. Each family of models has a folder of its own and derives from
// this; nobody else need know which family a model is of.
#pragma once
#include <memory>

#include "models/forward_pass.h"

namespace foldgrad {

struct FoldedGraph;

// Lists of what a model consists of, in the order of the forward pass; each once, also where it is shared.
struct ModelParts {
  std::vector<Parameter*> parameters;
  std::vector<Normalizer*> normalizers;
  std::vector<Parameter*> added;   // of `parameters`: learned positions and the class token
  std::vector<Parameter*> output;  // of `parameters`: those of the last layer, which makes the logits

  void add(Parameter& parameter);                     // unless its value is not defined
  void add(const std::unique_ptr<Normalizer>& norm);  // and its parameters, unless it is null
};

class Model {
 public:
  Model(DType dtype, Device device) : dtype_(dtype), device_(device) {}
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  DType dtype() const { return dtype_; }  // of the parameters
  Device device() const { return device_; }

  // Returns the name of its row in the table of families (train/tasks/families.h): "transformer".
  virtual const char* family() const = 0;

  // Return all in the order of the forward pass; each once, also where it is shared.
  std::vector<Parameter*> parameters() const { return parts().parameters; }
  std::vector<Normalizer*> normalizers() const { return parts().normalizers; }
  // Returns those of the last layer: adaptive clipping may leave them out.
  std::vector<Parameter*> output_parameters() const { return parts().output; }
  // Returns those that are no matrices: biases, gains, learned positions and the class token. Weight decay may leave
  // them out.
  std::vector<Parameter*> vectors() const;
  std::int64_t parameter_count() const;

  // Returns logits [rows, classes] of `inputs`, which are named as the family says and lie on any device.
  virtual Var forward(const NamedTensors& inputs, const ForwardPass& pass) = 0;
  // Returns the cross entropy of forward(inputs) with inputs.at("target"), summed over the targets.
  virtual Var loss_of(const Var& logits, const NamedTensors& inputs, double label_smoothing) = 0;
  Var loss(const NamedTensors& inputs, const ForwardPass& pass, double label_smoothing) {
    return loss_of(forward(inputs, pass), inputs, label_smoothing);
  }
  // Returns the rows of forward(inputs) in their places in `inputs`: [..., classes], on the host, zero elsewhere.
  virtual Tensor placed(const Tensor& logits, const NamedTensors&) const { return logits.to(Device::cpu); }

  // Returns the smallest inputs with which every operation is recorded, those of `graph`. On any device, as all inputs.
  virtual NamedTensors smallest_inputs() const = 0;
  // Returns random ones, "target" among them, to compare models in checks and certificates; equal ones for equal seeds.
  virtual NamedTensors random_inputs(std::uint64_t seed) const = 0;

  // Returns a model of the same configuration, or of one with what `folded` leaves of normalizers. Its parameters are
  // zero and its normalizers as new.
  virtual std::unique_ptr<Model> alike(DType dtype, Device device, const FoldedGraph* folded = nullptr) const = 0;
  // Returns the same function as a model that folding knows, null if this is one. Folding knows none with fixnorm.
  virtual std::unique_ptr<Model> foldable() { return nullptr; }

  // Writes the model as ONNX, as docs/onnx.md says, and returns the names of the graphs' files. Creates `directory`;
  // files that are there are replaced, once all could be written. Throws std::invalid_argument unless the model is f32
  // on the CPU, for a normalizer with statistics over tokens, for weights of 2 GiB or more, for padding that has the id
  // of a sentence's end, and where the files would replace a model of ours; FileError; std::runtime_error where
  // onnx_available() is false.
  virtual std::vector<std::string> write_onnx(const std::string& directory) = 0;

  // Returns the parameters by name.
  NamedTensors values() const;
  // Returns the buffers of all normalizers, by SITE.NAME, live as those of Normalizer::state().
  NamedTensors state() const;
  // Returns those of them that Normalizer::statistics() has.
  NamedTensors statistics() const;
  NamedTensors snapshot() const { return clone(state()); }
  // Returns state() without the counters that files of version 0.3 and before lack, if `saved` lacks them.
  NamedTensors state_for(const NamedTensors& saved) const;
  // Throws std::invalid_argument unless names, shapes and dtypes are those of state_for(snapshot); nothing is written
  // then.
  void restore(const NamedTensors& snapshot);
  // Copies values and state of another model of the same configuration, from whatever device and dtype.
  void copy_from(const Model& other);
  std::unique_ptr<Model> copy(DType dtype, Device device) const;

 protected:
  virtual void list(ModelParts& parts) = 0;

 private:
  ModelParts parts() const;

  DType dtype_;
  Device device_;
};

// Returns logits at inference, placed as in the inputs, which lie on any device: computed in `dtype`, f64 on the host.
Tensor inference_logits(Model& model, const NamedTensors& inputs, DType dtype);

}  // namespace foldgrad
