// foldgrad verify-traces: replays recorded traces and prints the largest differences, and where they begin.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/files/file.h"
#include "train/checks/trace.h"
#include "train/commands/commands.h"
#include "train/system/device.h"
#include "train/system/exit_code.h"
#include "train/system/streams.h"

namespace foldgrad {
namespace {

struct VerifyTraces {
  std::vector<std::string> files;
  std::string device = "cpu";
  DType dtype = DType::f64;
  std::optional<double> tolerance;
  bool json = false;

  // 30 steps of rounding, in sums over a few tokens; exact decisions in f32 can differ only where rounding decides.
  double limit() const { return tolerance.value_or(dtype == DType::f64 ? 1e-12 : 1e-4); }
};

struct Outcome {
  std::string file;
  std::optional<TraceReport> report;
  std::string error;  // when there is no report
};

void print_text(const Outcome& outcome) {
  if (!outcome.report) {
    say("error: {}\n", outcome.error);
    return;
  }
  const TraceReport& r = *outcome.report;
  fmt::print("{}: {}, {} steps of {}\n", outcome.file, r.layer, r.steps, r.shape);
  for (const TraceDifference& d : r.differences) {
    fmt::print("  {:<15} {:<9.2g} at step {}", d.array, d.largest, d.step);
    if (d.first)
      fmt::print("  ABOVE THE TOLERANCE first at step {}, [{}]: got {}, want {}", d.first->step,
                 fmt::join(d.first->index, ", "), d.first->got, d.first->want);
    fmt::print("\n");
  }
}

nlohmann::ordered_json json_of(const TraceDifference& d) {
  nlohmann::ordered_json entry{{"largest", d.largest}, {"step", d.step}, {"first", nullptr}};
  if (d.first)
    entry["first"] = {
        {"step", d.first->step}, {"index", d.first->index}, {"got", d.first->got}, {"want", d.first->want}};
  return entry;
}

nlohmann::ordered_json json_of(const VerifyTraces& o, const std::vector<Outcome>& outcomes, int exit_code) {
  nlohmann::ordered_json traces = nlohmann::ordered_json::array();
  for (const Outcome& outcome : outcomes) {
    nlohmann::ordered_json trace{{"file", outcome.file}};
    if (!outcome.report) {
      trace["error"] = outcome.error;
    } else {
      trace["layer"] = outcome.report->layer;
      trace["steps"] = outcome.report->steps;
      trace["agrees"] = outcome.report->largest() <= o.limit();
      for (const TraceDifference& d : outcome.report->differences) trace["differences"][d.array] = json_of(d);
    }
    traces.push_back(std::move(trace));
  }
  return {{"device", o.device},
          {"dtype", name(o.dtype)},
          {"tolerance", o.limit()},
          {"agrees", exit_code == kExitOk},
          {"traces", std::move(traces)}};
}

int verify(const VerifyTraces& o) {
  const Device device = require_device(o.device);
  std::vector<Outcome> outcomes;
  std::size_t differing = 0, malformed = 0;
  for (const std::string& file : o.files) {
    Outcome outcome{file, std::nullopt, {}};
    try {
      outcome.report = replay_trace(file, o.dtype, device, o.limit());
      differing += !(outcome.report->largest() <= o.limit());
    } catch (const FileError& e) {
      outcome.error = e.what();
      ++malformed;
    }
    if (!o.json) print_text(outcome);
    outcomes.push_back(std::move(outcome));
  }
  const int exit_code = malformed ? kExitData : differing ? kExitCheckFailed : kExitOk;
  if (o.json)
    print_json(json_of(o, outcomes, exit_code));
  else
    fmt::print("{} traces on {} in {}, tolerance {}: {} agree, {} differ, {} cannot be replayed\n", o.files.size(),
               o.device, name(o.dtype), o.limit(), o.files.size() - differing - malformed, differing, malformed);
  return exit_code;
}

}  // namespace

Action add_verify_traces(CLI::App& command) {
  const auto o = std::make_shared<VerifyTraces>();
  command.add_option("FILE", o->files, "Traces, safetensors files")->required();
  add_device_option(command, o->device);
  add_dtype_option(command, o->dtype, {DType::f64, DType::f32}, "Precision: f64 or f32");
  command
      .add_option("--tolerance", o->tolerance,
                  "Largest |got - want| / (1 + |want|) that passes [1e-12 in f64, 1e-4 in f32]")
      ->check(CLI::NonNegativeNumber);
  command.add_flag("--json", o->json, "Print JSON");
  command.footer(
      "Exit codes: 0 all agree, 1 a difference is above the tolerance, 2 usage, 3 a file is no trace, 6 device");
  return [o] { return verify(*o); };
}

}  // namespace foldgrad
