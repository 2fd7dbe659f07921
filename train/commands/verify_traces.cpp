// foldgrad verify-traces: replays recorded traces, and prints the largest differences and the position of the first
// difference above the tolerance.
#include <limits>
#include <optional>

#include "engine/files/file.h"
#include "train/checks/trace.h"
#include "train/commands/command.h"
#include "train/system/device.h"
#include "train/system/streams.h"

namespace foldgrad {
namespace {

struct VerifyTraces {
  std::vector<std::string> files;
  std::string device = "cpu";
  DType dtype = DType::f64;
  std::optional<double> tolerance;

  // Returns the tolerance. The default allows for the rounding of sums over a few tokens in 30 steps.
  double limit() const { return tolerance.value_or(dtype == DType::f64 ? 1e-12 : 1e-4); }
};

std::string text_of(const std::string& file, const TraceReport& r) {
  std::string text = fmt::format("{}: {}, {} steps of {}\n", file, r.layer, r.steps, r.shape);
  for (const TraceDifference& d : r.differences) {
    text += fmt::format("  {:<15} {:<9.2g} at step {}", d.array, d.largest, d.step);
    if (d.first)
      text += fmt::format("  ABOVE THE TOLERANCE first at step {}, [{}]: got {}, want {}", d.first->step,
                          fmt::join(d.first->index, ", "), d.first->got, d.first->want);
    text += "\n";
  }
  return text;
}

nlohmann::ordered_json json_of(const std::string& file, const TraceReport& r, double limit) {
  nlohmann::ordered_json trace{
      {"file", file}, {"layer", r.layer}, {"steps", r.steps}, {"agrees", r.largest() <= limit}};
  for (const TraceDifference& d : r.differences) {
    nlohmann::ordered_json& entry = trace["differences"][d.array];
    entry = {{"largest", d.largest}, {"step", d.step}, {"first", nullptr}};
    if (d.first)
      entry["first"] = {
          {"step", d.first->step}, {"index", d.first->index}, {"got", d.first->got}, {"want", d.first->want}};
  }
  return trace;
}

Answer verify(const VerifyTraces& o) {
  const Device device = require_device(o.device);
  std::string text;
  nlohmann::ordered_json traces = nlohmann::ordered_json::array();
  std::size_t differing = 0, malformed = 0;
  for (const std::string& file : o.files) try {
      const TraceReport report = replay_trace(file, o.dtype, device, o.limit());
      differing += !(report.largest() <= o.limit());
      text += text_of(file, report);
      traces.push_back(json_of(file, report, o.limit()));
    } catch (const FileError& e) {
      say("error: {}\n", e.what());
      traces.push_back({{"file", file}, {"error", e.what()}});
      ++malformed;
    }
  text +=
      fmt::format("{} traces on {} in {}, tolerance {}: {} agree, {} differ, {} cannot be replayed\n", o.files.size(),
                  o.device, name(o.dtype), o.limit(), o.files.size() - differing - malformed, differing, malformed);
  const int exit_code = malformed ? kExitData : differing ? kExitCheckFailed : kExitOk;
  return {text,
          {{"device", o.device},
           {"dtype", name(o.dtype)},
           {"tolerance", o.limit()},
           {"agrees", exit_code == kExitOk},
           {"traces", std::move(traces)}},
          exit_code};
}

}  // namespace

Action add_verify_traces(CLI::App& command) {
  const auto o = std::make_shared<VerifyTraces>();
  command.add_option("FILE", o->files, "Traces, safetensors files")->required();
  add_device_option(command, o->device);
  add_dtype_option(command, o->dtype, {DType::f64, DType::f32}, "Precision: f64 or f32");
  command
      .add_option("--tolerance", o->tolerance,
                  "Maximum |got - want| / (1 + |want|) that passes [1e-12 in f64, 1e-4 in f32]")
      ->check(number_in(0, std::numeric_limits<double>::max()).description("NONNEGATIVE"));
  add_json_option(command);
  command.footer(
      "Exit codes: 0 all agree, 1 a difference is above the tolerance, 2 usage error, 3 a file is not a trace, 6 "
      "device error");
  return [o] { return verify(*o); };
}

}  // namespace foldgrad
