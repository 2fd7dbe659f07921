#include "train/checks/trace.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "engine/contains.h"
#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "models/normalizers/normalizer.h"
#include "train/checks/finite.h"

namespace foldgrad {
namespace {

// The content of a trace file.
struct Trace {
  std::string path;
  SafetensorsFile file;
  std::string layer = {};
  bool masked = false;
  std::int64_t start_iters = 0, steps = 0;
  Shape shape = {};  // shape of x in one step

  [[noreturn]] void refuse(const std::string& what) const { throw FileError(path, what); }

  const Tensor& array(const std::string& name) const {
    const auto found = file.tensors.find(name);
    if (found == file.tensors.end()) refuse(fmt::format("not a trace: the array {} is missing", name));
    return found->second;
  }
  void require(const std::string& name, const Shape& want, DType dtype) const {
    const Tensor& t = array(name);
    if (t.shape() != want || t.dtype() != dtype)
      refuse(fmt::format("{} must be {} {}, got {} {}", name, foldgrad::name(dtype), want, foldgrad::name(t.dtype()),
                         t.shape()));
  }
  // Returns the shape [T, of...].
  Shape over_steps(const Shape& of) const {
    std::vector<std::int64_t> sizes = of.sizes();
    sizes.insert(sizes.begin(), steps);
    return Shape(std::move(sizes));
  }
  Tensor at(const std::string& name, std::int64_t step) const {
    const Tensor& all = array(name);
    return all.slice(step, step + 1).reshape(all.shape().without(0));
  }
};

std::string take(std::map<std::string, std::string>& metadata, const std::string& key, const std::string& otherwise) {
  auto found = metadata.extract(key);
  return found ? std::move(found.mapped()) : otherwise;
}

// Returns the parameter's name in the file, where PyTorch's weight and bias are gamma and beta.
std::string array_name(const Parameter& parameter) {
  const std::string name = parameter.name.substr(std::string("trace.").size());
  return name == "weight" ? "gamma" : name == "bias" ? "beta" : name;
}

// Makes the normalizer of the trace. `options` are the file's remaining metadata.
std::unique_ptr<Normalizer> normalizer_of(const Trace& trace, std::map<std::string, std::string> options, DType dtype,
                                          Device device) {
  if (trace.layer == "rmsnorm") options.emplace("bias", "1");
  if (trace.layer == "instancenorm") options.emplace("affine", "1");
  // Traces of these normalizers come from the authors' code or a copy of it.
  if (trace.layer == "mabn" || trace.layer == "pn" || trace.layer == "pn_star") options.emplace("mode", "reference");
  try {
    return make_normalizer(trace.layer, options, "trace", trace.shape[-1], dtype, device);
  } catch (const std::invalid_argument& e) {
    trace.refuse(fmt::format("metadata: {}", e.what()));
  }
}

bool is_counter(const std::string& name) {
  return name == "iters" || name == "skips" || name == "skips_in_a_row" || name == "steps";
}

// Checks that the trace has exactly the arrays that the normalizer needs, with the right shapes and dtypes.
void check_arrays(const Trace& trace, Normalizer& norm) {
  std::vector<std::string> known{"x", "dy", "y", "dx", "mask"};
  for (const char* name : {"x", "dy", "y", "dx"}) trace.require(name, trace.over_steps(trace.shape), DType::f64);
  if (trace.masked || trace.file.tensors.count("mask")) {
    trace.require("mask", trace.over_steps(trace.shape.without(-1)), DType::u8);
    for (const std::uint8_t real : trace.array("mask").values<std::uint8_t>())
      if (real > 1 || (real == 0 && !trace.masked))
        trace.refuse(fmt::format("mask must be {}, got {}", trace.masked ? "0 or 1" : "1 everywhere when masked = 0",
                                 int(real)));
  }
  for (Parameter* p : norm.parameters()) {
    const std::string name = array_name(*p);
    trace.require(name, p->value.shape(), DType::f64);
    trace.require("d" + name, trace.over_steps(p->value.shape()), DType::f64);
    known.insert(known.end(), {name, "d" + name});
  }
  for (const auto& [name, buffer] : norm.state()) {
    known.push_back("state." + name);
    if (is_counter(name) && !trace.file.tensors.count(known.back())) continue;
    trace.require(known.back(), trace.over_steps(buffer.shape()),
                  buffer.dtype() == DType::i64 ? DType::i64 : DType::f64);
  }
  for (const auto& [name, tensor] : trace.file.tensors)
    if (!contains(known, name))
      trace.refuse(fmt::format("the array {} does not belong to a trace of {}", name, trace.layer));
}

Trace read_trace(const std::string& path, std::map<std::string, std::string>& options) {
  Trace trace{.path = path, .file = read_safetensors(path)};
  options = trace.file.metadata;
  take(options, "format", "");
  trace.layer = take(options, "layer", "");
  if (trace.layer.empty()) trace.refuse("not a trace: the metadata has no layer");
  const std::string masked = take(options, "masked", "0"), start = take(options, "start_iters", "0");
  if (masked != "0" && masked != "1") trace.refuse(fmt::format("metadata: masked must be 0 or 1, got \"{}\"", masked));
  trace.masked = masked == "1";
  const char* end = start.data() + start.size();
  if (const auto [ptr, ec] = std::from_chars(start.data(), end, trace.start_iters);
      ec != std::errc() || ptr != end || trace.start_iters < 0)
    trace.refuse(fmt::format("metadata: start_iters must be an integer of at least 0, got \"{}\"", start));
  const Shape& shape = trace.array("x").shape();
  if (shape.rank() < 3 || shape.elements() == 0)
    trace.refuse(fmt::format("x must be [T, P, C] with at least one step, token and channel, got {}", shape));
  trace.steps = shape[0];
  trace.shape = shape.without(0);
  return trace;
}

double difference(double got, double want) {
  if (got == want) return 0;  // also true if both are the same infinity
  const double d = std::abs(got - want) / (1 + std::abs(want));
  return std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
}

// Collects the largest difference in each array, and the first difference above the tolerance.
struct Comparison {
  const Trace& trace;
  const double tolerance;
  std::vector<TraceDifference> differences = {};

  void operator()(const std::string& name, const Tensor& got, std::int64_t step) {
    const std::vector<double> g = got.to(Device::cpu).to(DType::f64).values<double>(),
                              w = trace.at(name, step).to(DType::f64).values<double>();
    auto entry = std::ranges::find(differences, name, &TraceDifference::array);
    if (entry == differences.end()) entry = differences.insert(entry, {.array = name});
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double d = difference(g[i], w[i]);
      if (d > entry->largest) entry->largest = d, entry->step = step + 1;
      if (d > tolerance && !entry->first) entry->first = {step + 1, index_of(std::int64_t(i), got.shape()), g[i], w[i]};
    }
  }
};

void preset(const Trace& trace, Normalizer& norm, Device device) {
  for (Parameter* p : norm.parameters()) p->value.copy_from(trace.array(array_name(*p)).to(p->value.dtype()));
  if (trace.start_iters == 0) return;
  auto state = norm.state();
  for (const char* counter : {"iters", "steps"})
    if (const auto found = state.find(counter); found != state.end() && found->second.device() == device)
      return found->second.copy_from(Tensor::of<std::int64_t>({}, {trace.start_iters}));
  trace.refuse(
      fmt::format("metadata: start_iters is {}, but {} does not count iterations", trace.start_iters, trace.layer));
}

// The rows of one step in the order in which the layer receives them: first the real rows, which enter the statistics,
// then padding. If statistics are taken over a sample (the first axis), the layer receives only the real rows.
struct StepRows {
  std::vector<std::int64_t> order = {}, lengths = {};  // lengths: number of real rows of each sample
  std::int64_t real = 0;

  StepRows(const Trace& trace, std::int64_t step, bool alone) {
    const Shape shape = trace.shape.without(-1);
    const std::int64_t rows = shape.elements(), of_sample = rows / shape[0];
    const auto mask =
        trace.masked ? trace.at("mask", step).values<std::uint8_t>() : std::vector<std::uint8_t>(std::size_t(rows), 1);
    lengths.resize(std::size_t(shape[0]));
    for (const bool wanted : {true, false})
      for (std::int64_t r = 0; r < rows; ++r) {
        if (bool(mask[std::size_t(r)]) != wanted || (alone && !wanted)) continue;
        order.push_back(r);
        real += wanted;
        lengths[std::size_t(r / of_sample)] += wanted;
      }
  }
  // Returns the rows of t [..., C] in the order `order`.
  Tensor of(const Tensor& t) const {
    const std::int64_t C = t.shape()[-1];
    const Tensor rows = Tensor::empty({std::int64_t(order.size()), C}, t.dtype());
    for (std::size_t r = 0; r < order.size(); ++r)
      std::copy_n(t.data<double>() + order[r] * C, C, rows.data<double>() + std::int64_t(r) * C);
    return rows;
  }
  // Returns the rows in their original positions. Rows that were not passed to the layer are taken from `otherwise`.
  Tensor back(const Tensor& rows, const Tensor& otherwise) const {
    const std::int64_t C = otherwise.shape()[-1];
    const Tensor all = otherwise.clone(), from = rows.to(Device::cpu).to(DType::f64);
    for (std::size_t r = 0; r < order.size(); ++r)
      std::copy_n(from.data<double>() + std::int64_t(r) * C, C, all.data<double>() + order[r] * C);
    return all;
  }
};

void replay_step(const Trace& trace, Normalizer& norm, std::int64_t step, DType dtype, Device device,
                 Comparison& compare) {
  const StepRows rows(trace, step, norm.mixes_tokens());
  const auto on_device = [&](const char* name) { return rows.of(trace.at(name, step)).to(dtype).to(device); };
  const Segments samples = Segments(rows.lengths).to(device);
  for (Parameter* p : norm.parameters()) p->zero_grad();
  Tape tape;
  const Var x = tape.variable(on_device("x"));
  const Var y =
      norm.apply(x, {.training = true, .samples = norm.mixes_tokens() ? &samples : nullptr, .counted = rows.real});
  tape.backward(y, on_device("dy"));
  // Rows that were not passed to the layer have no y to compare, and their gradient is 0.
  compare("y", rows.back(y.value(), trace.at("y", step)), step);
  compare("dx", rows.back(tape.grad(x), Tensor::zeros(trace.shape, DType::f64)), step);
  for (Parameter* p : norm.parameters())
    compare("d" + array_name(*p), p->has_grad ? p->grad : Tensor::zeros(p->value.shape(), dtype), step);
  for (const auto& [name, buffer] : norm.state())
    if (trace.file.tensors.count("state." + name)) compare("state." + name, buffer, step);
}

}  // namespace

double TraceReport::largest() const {
  double largest = 0;
  for (const TraceDifference& d : differences) largest = std::max(largest, d.largest);
  return largest;
}

TraceReport replay_trace(const std::string& path, DType dtype, Device device, double tolerance) {
  std::map<std::string, std::string> options;
  const Trace trace = read_trace(path, options);
  const auto norm = normalizer_of(trace, options, dtype, device);
  check_arrays(trace, *norm);
  preset(trace, *norm, device);
  Comparison compare{trace, tolerance};
  try {
    for (std::int64_t step = 0; step < trace.steps; ++step) replay_step(trace, *norm, step, dtype, device, compare);
  } catch (const std::invalid_argument& e) {  // for example if options contradict each other
    trace.refuse(fmt::format("cannot be replayed: {}", e.what()));
  }
  return {trace.layer, trace.steps, trace.shape, std::move(compare.differences)};
}

}  // namespace foldgrad
