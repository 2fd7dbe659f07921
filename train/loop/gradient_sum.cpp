#include "train/loop/gradient_sum.h"

#include "engine/contains.h"
#include "engine/cpu/threads.h"
#include "engine/parallel/elapsed.h"
#include "ops/linear/stacked.h"

namespace foldgrad {
namespace {

// Sums the tensors over the ranks as one array. All tensors have the same dtype.
void sum_bucket(Communicator& communicator, const std::vector<Tensor>& tensors) {
  std::int64_t size = 0;
  std::vector<std::int64_t> sizes;
  for (const Tensor& t : tensors) size += sizes.emplace_back(t.size());
  const Tensor all = Tensor::empty({size}, tensors[0].dtype(), tensors[0].device());
  std::vector<Tensor> parts = split(all, sizes);
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].copy_from(tensors[i].reshape({sizes[i]}));
  communicator.all_reduce_sum(all);
  for (std::size_t i = 0; i < parts.size(); ++i) tensors[i].reshape({sizes[i]}).copy_from(parts[i]);
}

}  // namespace

GradientSum::GradientSum(Communicator& communicator, std::vector<Parameter*> parameters, std::size_t bucket_bytes)
    : communicator_(communicator),
      parameters_(std::move(parameters)),
      bucket_bytes_(bucket_bytes),
      background_(communicator.another()) {}

GradientSum::~GradientSum() { background_->interrupt(); }

void GradientSum::watch(Tape& tape) {
  if (parameters_.empty() || parameters_[0]->value.device() != Device::cpu) return;
  std::unordered_set<const Parameter*> used;
  for (const auto& node : tape.nodes())
    for (const int id : node->inputs())
      if (const Parameter* p = tape.parameter_of(id); p && used.insert(p).second) first_uses_[node.get()].push_back(p);
  background_->at_step(communicator_.step());
  watched_ = &tape;
  // The backward pass handles a parameter's first use last. So the gradient is complete when the pass reaches the next
  // node.
  tape.observe(nullptr, [this](const Node& node, const Tensor&) {
    for (const Parameter* p : std::exchange(complete_, {})) add(*p);
    if (const auto found = first_uses_.find(&node); found != first_uses_.end()) complete_ = std::move(found->second);
  });
}

void GradientSum::add(const Parameter& parameter) {
  if (!parameter.has_grad || !contains(parameters_, &parameter) || !sent_.insert(&parameter).second) return;
  bucket_.push_back(parameter.grad);
  bytes_ += parameter.grad.bytes();
  if (bytes_ >= bucket_bytes_) send();
}

// Starts a thread for the bucket. The thread first waits for the previous bucket's thread.
void GradientSum::send() {
  if (bucket_.empty()) return;
  const auto policy = bucket_[0].device() == Device::cpu ? std::launch::async : std::launch::deferred;
  sending_ = std::async(policy, [this, bucket = std::exchange(bucket_, {}), before = std::move(sending_)]() mutable {
    if (before.valid()) before.get();
    set_threads(1);  // leaves the other cores to the backward pass
    sum_bucket(*background_, bucket);
  });
  bytes_ = 0;
}

void GradientSum::finish(std::vector<Tensor>& losses) {
  if (watched_) watched_->observe(nullptr);
  background_->at_step(communicator_.step());
  for (const Parameter* p : parameters_) add(*p);
  send();
  const Clock::time_point begin = Clock::now();
  if (sending_.valid()) sending_.get();
  communicator_.take_traffic(*background_, seconds_since(begin));
  watched_ = nullptr;
  first_uses_.clear(), complete_.clear(), sent_.clear();
  std::vector<double> sums;
  for (const Tensor& loss : losses) sums.push_back(loss.item());
  communicator_.all_reduce_sum(std::span(sums));
  losses.clear();
  for (const double sum : sums) losses.push_back(Tensor::full({}, sum, DType::f64));
}

}  // namespace foldgrad
