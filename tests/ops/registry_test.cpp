// Checks that every public function of ops/ has a RegisterOp with cases and messages, an entry in docs/ops.md, and
// kernels for every device. The test finds the functions in the headers, so none can be forgotten.
#include <filesystem>
#include <map>
#include <regex>

#include "tests/engine/files/temporary_directory.h"
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

namespace fs = std::filesystem;

// Returns the names of all functions that headers of ops/ declare as `Var name(`, and for each the path of its header.
std::map<std::string, std::string> public_functions() {
  const fs::path root(FOLDGRAD_SOURCE_DIR);
  const std::regex declaration("\nVar (\\w+)\\(");
  std::map<std::string, std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(root / "ops")) {
    if (entry.path().extension() != ".h") continue;
    const std::string text = read_bytes(entry.path());
    for (std::sregex_iterator m(text.begin(), text.end(), declaration), end; m != end; ++m)
      found[(*m)[1]] = fs::relative(entry.path(), root).string();
  }
  return found;
}

const OpSpec* spec_of(const std::string& function) {
  for (const OpSpec& spec : op_specs())
    if (spec.name == function) return &spec;
  return nullptr;
}

// Runs the first case on every device of this process. Checks that the result is on that device, and that there are
// gradients unless `spec` says why there are none.
void expect_runs(const OpSpec& spec) {
  for (Device device : devices()) {
    const OpResult result = run_case(spec.cases.front(), DType::f64, device);
    EXPECT_EQ(result.y.device(), device) << spec.name;
    const bool has_gradient =
        std::any_of(result.grads.begin(), result.grads.end(), [](const Tensor& t) { return t.defined(); });
    EXPECT_EQ(has_gradient, spec.no_gradient.empty()) << spec.name << " on " << name(device);
  }
}

TEST(Registry, EveryFunctionHasASpecificationMessagesAndADocument) {
  const std::string documents = read_bytes(FOLDGRAD_SOURCE_DIR "/docs/ops.md");
  const auto functions = public_functions();
  EXPECT_GE(functions.size(), 40u);  // fewer would mean that public_functions() missed some
  for (const auto& [function, header] : functions) {
    const OpSpec* spec = spec_of(function);
    ASSERT_NE(spec, nullptr) << function << " of " << header << " has no RegisterOp in tests/ops";
    EXPECT_FALSE(spec->cases.empty()) << function << " has no cases";
    EXPECT_FALSE(spec->errors.empty()) << function << " has no tested message";
    EXPECT_TRUE(std::any_of(spec->cases.begin(), spec->cases.end(), [](const OpCase& c) { return !c.large; }))
        << function << " has no case small enough for its gradients to be checked";
    EXPECT_NE(documents.find("`" + function + "`"), std::string::npos) << function << " has no row in docs/ops.md";
    EXPECT_NE(documents.find("`" + header + "`"), std::string::npos) << header << " is not named in docs/ops.md";
    expect_runs(*spec);
  }
}

// FastEqualsPlain compares each fast kernel with a plain kernel, but only in cases that run the fast kernel.
TEST(Registry, EveryFastKernelRunsInSomeCase) {
  const auto all_ran = [] {
    for (const FastKernel* k = FastKernel::first; k; k = k->next)
      if (k->runs == 0) return false;
    return true;
  };
  for (const OpSpec& spec : op_specs())
    for (const OpCase& c : spec.cases)
      for (Device device : devices())
        for (DType dtype : {DType::f32, DType::bf16})
          if (!all_ran()) run_case(c, dtype, device);
  for (const FastKernel* k = FastKernel::first; k; k = k->next)
    EXPECT_TRUE(k->runs > 0 || !cuda_available()) << k->name;
}

TEST(Registry, EverySpecificationIsOfAFunctionThatExists) {
  const auto functions = public_functions();
  for (const OpSpec& spec : op_specs()) EXPECT_TRUE(functions.count(spec.name)) << spec.name;
}

}  // namespace
}  // namespace foldgrad::testing
