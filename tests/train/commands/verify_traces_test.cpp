#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/device.h"
#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "tests/train/program.h"
#include "train/checks/trace.h"

namespace foldgrad::testing {
namespace {

const std::string kGolden = FOLDGRAD_SOURCE_DIR "/tests/golden/";

TEST(VerifyTraces, GoldenTracesAgree) {
  std::vector<std::string> devices{"cpu"};
  if (cuda_available()) devices.push_back(cuda_is_emulated() ? "emulated" : "cuda");
  for (const std::string& device : devices)
    for (const std::string dtype : {"f64", "f32"}) {
      const ProgramResult r =
          run_program("verify-traces tests/golden/*.safetensors --device " + device + " --dtype " + dtype + " --json");
      EXPECT_EQ(r.exit_code, 0) << r.out << r.err;
      const nlohmann::json all = nlohmann::json::parse(r.out);
      EXPECT_EQ(all["agrees"], true);
      EXPECT_EQ(all["device"], device);
      EXPECT_GE(all["traces"].size(), 36u);
      for (const auto& trace : all["traces"]) {
        EXPECT_EQ(trace["steps"], 30);
        for (const char* array : {"y", "dx", "dgamma", "dbeta"})
          EXPECT_LE(trace["differences"][array]["largest"], all["tolerance"]) << trace["file"] << " " << array;
        for (const auto& [array, d] : trace["differences"].items())
          if (d["largest"] == 0) {
            EXPECT_EQ(d["step"], 1) << trace["file"] << " " << array;
          }
        if (trace["layer"] != "un") continue;
        for (const char* array : {"run_var", "psi_ema", "win_sq", "win_g", "iters", "skips"})
          EXPECT_TRUE(trace["differences"].contains(std::string("state.") + array)) << trace["file"];
      }
    }
}

// A changed copy of a golden trace.
class Changed {
 public:
  template <class Change>
  Changed(const std::string& golden, const Change& change) {
    SafetensorsFile file = read_safetensors(kGolden + golden + ".safetensors");
    file.metadata.erase("format");
    change(file);
    write_safetensors(path(), file.tensors, file.metadata);
  }
  std::string path() const { return directory_ / "changed.safetensors"; }
  TraceReport replay(double tolerance = 1e-12) const {
    return replay_trace(path(), DType::f64, Device::cpu, tolerance);
  }
  ProgramResult run(const std::string& more = "") const { return run_program("verify-traces " + path() + " " + more); }

 private:
  TemporaryDirectory directory_;
};

const TraceDifference& difference_of(const TraceReport& report, const std::string& array) {
  return *std::ranges::find(report.differences, array, &TraceDifference::array);
}

TEST(VerifyTraces, OneWrongValueIsFound) {
  const auto expect_difference = [](const std::string& golden, const std::string& array, std::int64_t step,
                                    const auto& change) {
    const TraceReport r = Changed(golden, [&](SafetensorsFile& file) { change(file.tensors.at(array)); }).replay();
    EXPECT_GT(r.largest(), 1e-12) << golden << " " << array;
    EXPECT_GT(difference_of(r, array).largest, 1e-12) << golden << " " << array;
    EXPECT_EQ(difference_of(r, array).step, step) << golden << " " << array;
  };
  // The last value belongs to step 30.
  const auto last = [](Tensor& t) { t.data<double>()[t.size() - 1] += 1e-11; };
  expect_difference("un_paper_0", "y", 30, last);
  expect_difference("un_paper_0", "dx", 30, last);
  expect_difference("ln_0", "dgamma", 30, last);
  expect_difference("rmsnorm_0", "dbeta", 30, last);
  expect_difference("mabn_0", "state.win_g", 30, last);
  expect_difference("un_reference_0", "state.skips", 1, [](Tensor& t) { t.data<std::int64_t>()[0] += 1; });
  expect_difference("pn_0", "y", 1, [](Tensor& t) { t.data<double>()[0] = std::nan(""); });
}

// The report contains the first difference, which shows the mistake, and the largest one, which may be its consequence.
TEST(VerifyTraces, FirstAndLargestDifference) {
  const Changed changed("un_paper_0", [](SafetensorsFile& f) {  // y is [30, 7, 7]
    double* y = f.tensors.at("y").data<double>();
    y[3 * 49 + 2 * 7 + 5] = 0.25;
    y[3 * 49 + 2 * 7 + 6] = 1000;
    y[20 * 49] = std::nan("");
    f.tensors.at("state.skips").data<std::int64_t>()[7] = 1000;
  });
  const ProgramResult json = changed.run("--json"), r = changed.run();
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_EQ(r.exit_code, 1);
  const nlohmann::json all = nlohmann::json::parse(json.out), differences = all["traces"][0]["differences"];
  EXPECT_EQ(all["agrees"], false);
  EXPECT_EQ(all["traces"][0]["agrees"], false);
  EXPECT_EQ(differences["y"]["largest"], nullptr);  // a NaN counts as an infinite difference, which JSON shows as null
  EXPECT_EQ(differences["y"]["step"], 21);
  const nlohmann::json first = differences["y"]["first"];
  EXPECT_EQ(first["step"], 4);
  EXPECT_EQ(first["index"], (std::vector<int>{2, 5}));
  EXPECT_EQ(first["want"], 0.25);
  const Tensor y = read_safetensors(kGolden + "un_paper_0.safetensors").tensors.at("y");
  EXPECT_NEAR(first["got"], y.data<double>()[3 * 49 + 2 * 7 + 5], 1e-12);
  EXPECT_EQ(differences["state.skips"]["first"]["step"], 8);
  EXPECT_EQ(differences["state.skips"]["first"]["index"], nlohmann::json::array());
  EXPECT_EQ(differences["dx"]["first"], nullptr);
  EXPECT_TRUE(contains(r.out, " at step 21  ABOVE THE TOLERANCE first at step 4, [2, 5]: got "));
  EXPECT_TRUE(contains(r.out, ", want 0.25\n"));
  EXPECT_EQ(r.out.find("ABOVE"), r.out.find("ABOVE", r.out.find("  y "))) << "only y and skips differ:\n" << r.out;
  EXPECT_EQ(difference_of(changed.replay(10), "y").first->step, 21)
      << "with a tolerance of 10, only the NaN in step 21 is a difference";
}

TEST(VerifyTraces, ToleranceDecides) {
  const Changed changed("ln_0", [](SafetensorsFile& f) { f.tensors.at("y").data<double>()[0] += 1e-6; });
  EXPECT_EQ(changed.run("--tolerance 1e-7").exit_code, 1);
  const std::string largest = fmt::format("{}", changed.replay().largest());
  EXPECT_EQ(changed.run("--tolerance " + largest).exit_code, 0) << largest << " is within a tolerance of " << largest;
  EXPECT_EQ(changed.run("--dtype f32").exit_code, 0);
}

template <class Change>
void expect_malformed(const std::string& golden, const std::string& want, const Change& change) {
  const Changed changed(golden, change);
  EXPECT_EQ(message<FileError>([&] { changed.replay(); }), changed.path() + ": " + want);
}

TEST(VerifyTraces, MalformedArraysAreErrors) {
  expect_malformed("un_paper_0", "not a trace: the array dy is missing", [](auto& f) { f.tensors.erase("dy"); });
  expect_malformed("un_paper_0", "not a trace: the array state.run_var is missing",
                   [](auto& f) { f.tensors.erase("state.run_var"); });
  expect_malformed("un_paper_2", "not a trace: the array mask is missing", [](auto& f) { f.tensors.erase("mask"); });
  expect_malformed("un_paper_0", "dx must be f64 [30, 7, 7], got f64 [30, 49]", [](auto& f) {
    f.tensors["dx"] = f.tensors["dx"].reshape({30, 49});
  });
  expect_malformed("un_paper_0", "gamma must be f64 [7], got f64 [8]",
                   [](auto& f) { f.tensors["gamma"] = Tensor::zeros({8}, DType::f64); });
  expect_malformed("un_paper_0", "y must be f64 [30, 7, 7], got f32 [30, 7, 7]",
                   [](auto& f) { f.tensors["y"] = f.tensors["y"].to(DType::f32); });
  expect_malformed("un_paper_0", "state.skips must be i64 [30], got f64 [30]",
                   [](auto& f) { f.tensors["state.skips"] = Tensor::zeros({30}, DType::f64); });
  expect_malformed("un_paper_0", "x must be [T, P, C] with at least one step, token and channel, got [49, 30]",
                   [](auto& f) {
                     f.tensors["x"] = Tensor::zeros({49, 30}, DType::f64);
                   });
  expect_malformed("ln_0", "the array state.run_var does not belong to a trace of ln", [](auto& f) {
    f.tensors["state.run_var"] = Tensor::zeros({30, 6}, DType::f64);
  });
  expect_malformed("un_paper_2", "mask must be 0 or 1, got 2",
                   [](auto& f) { f.tensors["mask"].template data<std::uint8_t>()[3] = 2; });
  expect_malformed("un_paper_0", "mask must be 1 everywhere when masked = 0, got 0",
                   [](auto& f) { f.tensors["mask"].template data<std::uint8_t>()[3] = 0; });
}

TEST(VerifyTraces, MalformedMetadataIsAnError) {
  const auto with = [](const char* key, const char* value) {
    return [key, value](SafetensorsFile& f) { f.metadata[key] = value; };
  };
  expect_malformed("ln_0", "not a trace: the metadata has no layer", [](auto& f) { f.metadata.erase("layer"); });
  expect_malformed("ln_0", "metadata: ln: there is no option \"esp\"; did you mean \"eps\"? Its options are: eps",
                   with("esp", "1e-5"));
  expect_malformed("bn_0", "metadata: masked must be 0 or 1, got \"yes\"", with("masked", "yes"));
  expect_malformed("bn_0", "metadata: start_iters must be an integer of at least 0, got \"-1\"",
                   with("start_iters", "-1"));
  expect_malformed("ln_0", "metadata: start_iters is 7, but ln does not count iterations", with("start_iters", "7"));
  const Changed unknown("ln_0", with("layer", "lm"));
  EXPECT_TRUE(contains(message<FileError>([&] { unknown.replay(); }),
                       "there is no normalizer \"lm\"; did you mean \"ln\"? There are: affine, bn"));
}

// If some files are not traces, the other files are still checked.
TEST(VerifyTraces, PrintsEachArrayAndNamesFilesThatAreNoTraces) {
  const ProgramResult r = run_program("verify-traces missing.safetensors README.md tests/golden/bn_0.safetensors");
  EXPECT_EQ(r.exit_code, 3);
  EXPECT_EQ(r.out.substr(0, r.out.find('\n')), "tests/golden/bn_0.safetensors: bn, 30 steps of [9, 3]");
  for (const char* array :
       {"\n  y ", "\n  dx ", "\n  dgamma ", "\n  dbeta ", "\n  state.run_mean ", "\n  state.run_var "})
    EXPECT_TRUE(contains(r.out, array)) << array;
  EXPECT_TRUE(contains(r.out, "3 traces on cpu in f64, tolerance 1e-12: 1 agree, 0 differ, 2 cannot be replayed\n"));
  EXPECT_EQ(r.err.substr(0, r.err.find('\n')),
            "error: missing.safetensors: cannot be opened: No such file or directory");
  EXPECT_TRUE(contains(r.err, "error: README.md: "));
  // The same is true if a trace has contradictory options, which only the operation itself detects.
  const Changed contradicting("un_paper_0", [](SafetensorsFile& f) {
    f.metadata["filtration"] = "1";
    f.metadata["forward_average"] = "none";
    f.tensors.erase("state.win_sq");
  });
  const ProgramResult json = contradicting.run("tests/golden/bn_0.safetensors --json");
  EXPECT_EQ(json.exit_code, 3);
  const nlohmann::json both = nlohmann::json::parse(json.out);
  EXPECT_EQ(both["traces"][0]["error"].get<std::string>().substr(contradicting.path().size()),
            ": cannot be replayed: channel_norm: filtration needs a forward average over a window");
  EXPECT_EQ(both["traces"][1]["agrees"], true);
  const nlohmann::json all = nlohmann::json::parse(run_program("verify-traces missing.safetensors --json").out);
  EXPECT_EQ(all["traces"][0]["error"], "missing.safetensors: cannot be opened: No such file or directory");
}

}  // namespace
}  // namespace foldgrad::testing
