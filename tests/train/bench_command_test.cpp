#include "tests/train/program.h"

namespace foldgrad::testing {
namespace {

TEST(BenchCommand, SetsNormalizersSideBySide) {
  const ProgramResult bench =
      run_program("bench infer --batch 2 --length 3 --rounds 1 --width 16 --layers 1 --beam 2 --dtype bf16");
  EXPECT_EQ(bench.exit_code, 0) << bench.err;
  EXPECT_EQ(bench.out.substr(0, bench.out.find('\n')),
            "2 sentences of 3 tokens, bf16, random weights, median of 1 rounds in turn");
  std::size_t at = 0;
  for (const char* row : {"normalizer", "\nln ", "\nrmsnorm ", "\nun ", "\nun, folded ", "\nnone "}) {
    at = bench.out.find(row, at);
    EXPECT_NE(at, std::string::npos) << row << " is missing or too early in\n" << bench.out;
  }
}

TEST(BenchCommand, Messages) {
  const ProgramResult dtype = run_program("bench infer --dtype f16");
  EXPECT_EQ(dtype.exit_code, 2);
  EXPECT_EQ(dtype.err, "error: bench: dtype must be f32 or bf16, got f16\n");
}

}  // namespace
}  // namespace foldgrad::testing
