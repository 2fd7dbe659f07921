// Steps of training as CUDA graphs (engine/cuda/graph.h). A step whose inputs have a new shape is run eagerly. So is
// the second of its shape, and captured right after it, from the memory that it has left; further ones are replayed.
#pragma once
#include <functional>
#include <memory>

#include "engine/cuda/graph.h"
#include "models/model.h"

namespace foldgrad {

// Kept at a time: batches come again in every epoch, and hardly two of them have one shape (453 shapes of 478 batches
// of 4,096 tokens, of 67,836 pairs of IWSLT14). Beyond, a graph that has not been used for a while gives way, and until
// there is one, further shapes are run eagerly. Not tuned.
constexpr int kMostStepGraphs = 1024;
constexpr std::int64_t kIdleSteps = 4000;

class StepGraphs {
 public:
  // Leaves gradients in the parameters, as an eager step does. They must outlive this, and keep their values' storage.
  explicit StepGraphs(std::vector<Parameter*> parameters);

  // Whether steps of this model are the same calls again and again: it lies on CUDA, and no normalizer counts on the
  // host, by a state that lies there (prepbn: what it computes depends on it). And cuda_graphs_allowed().
  static bool can_capture(const Model& model);

  // What a step computes from its inputs: kernels and copies on the device, the same ones for inputs of equal names,
  // types and shapes.
  using Body = std::function<std::vector<Tensor>(const NamedTensors& inputs)>;
  // The body's results, of these inputs, on any device. Where the body cannot be captured, it is run eagerly;
  // refusal() says why.
  std::vector<Tensor> run(const NamedTensors& inputs, const Body& body);

  std::int64_t captures() const { return captures_; }
  std::int64_t replays() const { return replays_; }
  const std::string& refusal() const { return refusal_; }  // the last; empty: there was none

 private:
  struct Step;

  bool make_room();
  std::vector<Tensor> capture(Step& step, const NamedTensors& inputs, const Body& body);
  std::vector<Tensor> run_eagerly(const NamedTensors& inputs, const Body& body);
  std::vector<Tensor> replay(const Step& step, const NamedTensors& inputs);
  static void set_inputs(const Step& step, const NamedTensors& inputs);
  std::vector<Tensor> gradients() const;
  void set_gradients(const std::vector<Tensor>& all) const;

  const std::vector<Parameter*> parameters_;
  const memory::Reserve reserve_;
  std::map<std::string, std::shared_ptr<Step>> steps_;  // by shape
  std::int64_t captures_ = 0, replays_ = 0, count_ = 0;
  std::string refusal_;
};

}  // namespace foldgrad
