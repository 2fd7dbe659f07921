#include "train/loop/step_graphs.h"

#include <algorithm>

namespace foldgrad {
namespace {

std::string shape_of(const NamedTensors& inputs) {
  std::string text;
  for (const auto& [name, tensor] : inputs)
    text += fmt::format("{} {} {} ", name, foldgrad::name(tensor.dtype()), tensor.shape());
  return text;
}

// Copies that are not in the reserve, where the next step writes over the results, or lacks their memory.
std::vector<Tensor> own(const std::vector<Tensor>& results) {
  std::vector<Tensor> copies;
  for (const Tensor& result : results) copies.push_back(result.clone());
  return copies;
}

}  // namespace

// Of one shape.
struct StepGraphs::Step {
  bool refused = false;
  std::int64_t last_used = 0;
  std::unique_ptr<CudaGraph> graph;  // null: not captured
  // Where the graph reads and writes. It writes gradients where they were when it was captured.
  NamedTensors inputs = {};
  std::vector<Tensor> results = {}, gradients = {};
};

StepGraphs::StepGraphs(std::vector<Parameter*> parameters) : parameters_(std::move(parameters)) {}

bool StepGraphs::can_capture(const Model& model) {
  if (model.device() != Device::cuda || !cuda_graphs_allowed()) return false;
  const NamedTensors state = model.state();
  return std::ranges::all_of(state, [](const auto& named) { return named.second.device() == Device::cuda; });
}

std::vector<Tensor> StepGraphs::run(const NamedTensors& inputs, const Body& body) {
  std::shared_ptr<Step>& step = steps_[shape_of(inputs)];
  const bool first = !step;
  if (first) step = std::make_shared<Step>();
  step->last_used = ++count_;
  if (step->graph) return replay(*step, inputs);
  if (first || step->refused || !make_room()) return run_eagerly(inputs, body);
  return capture(*step, inputs, body);
}

std::vector<Tensor> StepGraphs::run_eagerly(const NamedTensors& inputs, const Body& body) {
  std::vector<Tensor> results;
  {
    const memory::Reserve::Use use(reserve_);
    results = body(inputs);
  }
  return own(results);
}

bool StepGraphs::make_room() {
  std::vector<Step*> captured;
  for (const auto& [shape, step] : steps_)
    if (step->graph) captured.push_back(step.get());
  if (std::ssize(captured) < kMostStepGraphs) return true;
  Step& oldest = **std::ranges::min_element(captured, {}, &Step::last_used);
  if (count_ - oldest.last_used < kIdleSteps) return false;
  oldest = Step{};
  return true;
}

// What the eager step had in the reserve, the capture needs again. So meanwhile both have the same inputs and the same
// older gradients in it.
std::vector<Tensor> StepGraphs::capture(Step& step, const NamedTensors& inputs, const Body& body) {
  Step made{.last_used = step.last_used, .graph = std::make_unique<CudaGraph>(reserve_)};
  {
    const memory::Reserve::Use use(reserve_);
    for (const auto& [name, tensor] : inputs)
      made.inputs[name] = Tensor::empty(tensor.shape(), tensor.dtype(), Device::cuda);
  }
  set_inputs(made, inputs);
  std::vector<Tensor> older = gradients();
  const std::vector<Tensor> results = run_eagerly(made.inputs, body);
  older = gradients();
  try {
    made.graph->capture([&] { made.results = body(made.inputs); });
    made.gradients = gradients();
    step = std::move(made);
    ++captures_;
  } catch (const NotCapturable& e) {
    refusal_ = e.what();
    step.refused = true;
  }
  set_gradients(older);  // those of the capture are not there yet
  return results;
}

std::vector<Tensor> StepGraphs::replay(const Step& step, const NamedTensors& inputs) {
  set_inputs(step, inputs);
  step.graph->replay();
  set_gradients(step.gradients);
  ++replays_;
  return own(step.results);
}

void StepGraphs::set_inputs(const Step& step, const NamedTensors& inputs) {
  for (auto [name, place] : step.inputs) place.copy_from(inputs.at(name));
}

std::vector<Tensor> StepGraphs::gradients() const {
  std::vector<Tensor> all;
  for (const Parameter* p : parameters_) all.push_back(p->grad);
  return all;
}

void StepGraphs::set_gradients(const std::vector<Tensor>& all) const {
  for (std::size_t i = 0; i < all.size(); ++i) {
    parameters_[i]->grad = all[i];
    parameters_[i]->has_grad = all[i].defined();
  }
}

}  // namespace foldgrad
