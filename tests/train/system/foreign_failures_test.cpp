// Tests that the program reports failures of the environment, such as a lack of memory, and malformed input files with
// its own messages and exit codes.
#include "tests/train/model_program.h"
#include "train/tasks/translation/sentence_piece.h"

namespace foldgrad::testing {
namespace {

TEST(Environment, ThreadsAreCheckedLikeTheOption) {
  const auto norms = [](const std::string& threads) { return run_after("OMP_NUM_THREADS=" + threads + " ", "norms"); };
  for (const char* threads : {"999999999999", "1025", "0", "-1", "4,0"}) {
    const ProgramResult r = norms(threads);
    EXPECT_EQ(r.exit_code, 2) << threads;
    EXPECT_TRUE(r.err.ends_with("error: $OMP_NUM_THREADS must be in [1, 1024], got \"" + std::string(threads) + "\"\n"))
        << r.err;
  }
  for (const char* threads : {"1", "1024", "4,2"}) EXPECT_EQ(norms(threads).exit_code, 0) << threads;
}

// The limit of 700 MB is too low for AddressSanitizer, which reserves terabytes of addresses, and for CUDA's libraries,
// which need gigabytes. With either, the loader would end the program before main().
#if !defined(__SANITIZE_ADDRESS__) && !defined(FOLDGRAD_HAVE_CUBLAS) && !defined(FOLDGRAD_HAVE_CUDNN)
TEST(Environment, MemoryThatIsUsedUpIsTheDevicesFault) {
  const TemporaryDirectory files;
  write_bytes(files / "c.toml", "[data]\ntask = 'numbers'\ntrain_pairs = 10\nvalid_pairs = 2\n[model]\nheads = 4\n");
  // The program runs with two threads, since libgomp reuses a team of two. It would allocate a team of one in each
  // parallel region, and end the process if there is no memory for it.
  const auto train = [&](const std::string& set) {
    return run_after("OMP_NUM_THREADS=2; ulimit -v 700000; ",
                     "train " + files / "c.toml" + " --out " + files / "run" + " --set " + set);
  };
  // The first setting needs a single allocation that is too large. The second makes small allocations until no memory
  // is left, so destructors must not need memory, either.
  for (const char* set : {"model.ffn_width=2000000000", "model.encoder_layers=2000000 --set model.width=32"}) {
    const ProgramResult r = train(set);
    EXPECT_EQ(r.exit_code, 6) << set << r.err;
    EXPECT_TRUE(r.err.starts_with("error: memory") && r.err.find('\n') == r.err.size() - 1) << r.err;
  }
}
#endif

using Usage = ProgramFiles;

TEST_F(Usage, ErrorsNameLeftOverWordsInOrderAndEscapeControlCharacters) {
  expect_failure(run("doctor one two three"), 2, "error: one two three: unexpected argument\n");
  expect_failure(run("\"$(printf 'a\\033[31m\\177\\377')\""), 2, "error: there is no command \"a\\x1b[31m\\x7f\\xff\"");
  expect_error("inspect \"$(printf 'x\\033')\"", 3, "x\\x1b: cannot be opened: No such file or directory");
}

TEST_F(Usage, ConfigRefusesWhatTrainRefuses) {
  write("c.toml", "");
  const auto refused = [&](const std::string& settings, const std::string& message) {
    for (const std::string command : {"config @c.toml", "train @c.toml --out @run"}) {
      const ProgramResult r = run(command + settings);
      EXPECT_EQ(r.exit_code, 2) << command << settings;
      EXPECT_EQ(r.err, "error: " + message + "\n");
      EXPECT_EQ(r.out, "");
    }
    EXPECT_EQ(files_.entries(), 1);
  };
  refused(" --set train.schedule=cosine --set train.steps=60 --set train.warmup=150",
          "--set train.warmup: train.steps = 60 (--set train.steps) must be above the warm-up, train.warmup = 150");
  refused(" --set model.width=10", "model.heads must divide model.width = 10, got 4");
  refused(" --set data.tokenizer=bpe", "data.bpe_codes must name a file if data.tokenizer = \"bpe\"");
  expect_error("config ''", 2, "CONFIG must name a file, got \"\"");
}

using ForeignModel = ModelProgram;

TEST_F(ForeignModel, TextOfTheFileIsCutAndEscaped) {
  nlohmann::json config = nlohmann::json::parse(bytes("m/config.json"));
  config["model"]["activation"] = "\x1b[31m" + std::string(100'000, 'a');
  write("m/config.json", config.dump());
  const ProgramResult r = run("inspect @m");
  EXPECT_EQ(r.exit_code, 4);
  EXPECT_LT(r.err.size(), 1200u) << r.err;
  EXPECT_FALSE(contains(r.err, "\x1b"));
}

TEST_F(ForeignModel, ABadPieceIsABadModel) {
  if (!sentence_piece_available()) GTEST_SKIP() << "this build lacks SentencePiece";
  std::string model = SentencePiece::train({"ein haus", "das haus"}, 13).model();
  const std::size_t at = model.find("\xe2\x96\x81");  // U+2581, which marks the start of a word
  ASSERT_NE(at, model.npos);
  model[at] = '\0';
  write_bytes(files_ / "m/vocabulary/sentencepiece.model", model);
  write_bytes(files_ / "m/vocabulary/vocabulary.json",
              "{\"format\": 1, \"kind\": \"sentencepiece\", \"lowercase\": false}");
  expect_error("translate @m <@in.de", 4, "@m/vocabulary/sentencepiece.model: must be a SentencePiece model");
}

}  // namespace
}  // namespace foldgrad::testing
