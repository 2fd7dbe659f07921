#include "models/model.h"

#include <algorithm>

#include "engine/contains.h"

namespace foldgrad {
namespace {

NamedTensors named_by_site(const std::vector<Normalizer*>& norms, NamedTensors (Normalizer::*buffers)() const) {
  NamedTensors all;
  for (const Normalizer* norm : norms)
    for (const auto& [name, tensor] : (norm->*buffers)()) all.emplace(norm->site() + "." + name, tensor);
  return all;
}

}  // namespace

std::int64_t examples_in(const NamedTensors& batch) {
  const auto of_examples =
      std::ranges::find_if(batch, [&](const auto& one) { return !batch.contains(one.first + "_lengths"); });
  return of_examples->second.shape()[0];
}

NamedTensors part_of(const NamedTensors& batch, std::int64_t first, std::int64_t last) {
  NamedTensors some;
  for (const auto& [name, tensor] : batch) {
    const auto lengths = batch.find(name + "_lengths");
    if (lengths == batch.end()) {
      some.emplace(name, tensor.slice(first, last));
    } else {
      const Segments rows(lengths->second.values<std::int64_t>());
      some.emplace(name, tensor.slice(rows.offset(first), rows.offset(last)));
    }
  }
  return some;
}

ModelParts Model::parts() const {
  ModelParts parts;
  const_cast<Model&>(*this).list(parts);  // listing does not change the parts
  return parts;
}

std::vector<Parameter*> Model::vectors() const {
  ModelParts all = parts();
  std::erase_if(all.parameters, [&](Parameter* p) { return p->value.shape().rank() > 1 && !contains(all.added, p); });
  return all.parameters;
}

std::int64_t Model::parameter_count() const {
  std::int64_t count = 0;
  for (const Parameter* p : parameters()) count += p->value.size();
  return count;
}

NamedTensors Model::values() const {
  NamedTensors all;
  for (const Parameter* p : parameters()) all.emplace(p->name, p->value);
  return all;
}

NamedTensors Model::state() const { return named_by_site(normalizers(), &Normalizer::state); }

NamedTensors Model::statistics() const { return named_by_site(normalizers(), &Normalizer::statistics); }

NamedTensors Model::state_for(const NamedTensors& saved) const {
  NamedTensors own = state();
  std::erase_if(
      own, [&](const auto& buffer) { return buffer.first.ends_with(".skips_in_a_row") && !saved.count(buffer.first); });
  return own;
}

void Model::restore(const NamedTensors& snapshot) { copy_into(family(), state_for(snapshot), snapshot); }

void Model::copy_from(const Model& other) {
  const auto converted = [](NamedTensors from, const NamedTensors& own) {
    for (auto& [name, tensor] : from)
      if (const auto to = own.find(name); to != own.end()) tensor = tensor.to(to->second.dtype());
    return from;
  };
  const NamedTensors values = this->values(), state = this->state();
  const NamedTensors new_values = converted(other.values(), values), new_state = converted(other.state(), state);
  require_alike(family(), state, new_state);
  copy_into(family(), values, new_values);
  copy_into(family(), state, new_state);
}

std::unique_ptr<Model> Model::copy(DType dtype, Device device) const {
  std::unique_ptr<Model> model = alike(dtype, device);
  model->copy_from(*this);
  return model;
}

Tensor inference_logits(Model& model, const NamedTensors& inputs, DType dtype) {
  Tape tape(/*recording=*/false);
  const Tensor logits = model.forward(inputs, {.tape = tape, .dtype = dtype}).value();
  return logits.to(Device::cpu).to(DType::f64).clone();
}

}  // namespace foldgrad
