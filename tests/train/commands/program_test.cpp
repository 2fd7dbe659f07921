// Tests the program's help, usage errors, completion and manual, and that the documents agree with them.
#include "tests/train/program.h"

#include <fmt/format.h>

#include <set>

#include "engine/device.h"
#include "models/normalizers/normalizer.h"
#include "tests/train/spawned_program.h"
#include "train/commands/commands.h"

namespace foldgrad::testing {
namespace {

TEST(Program, HelpNamesTheOptions) {
  const ProgramResult of_command = run_program("verify-traces --help");
  EXPECT_EQ(of_command.exit_code, 0);
  for (const char* part : {"--device", "emulated", "--dtype", "f64", "--tolerance", "1e-12", "--json", "Exit codes"})
    EXPECT_TRUE(contains(of_command.out, part));
}

TEST(Program, VersionTellsTheBuild) {
  const ProgramResult version = run_program("--version");
  EXPECT_EQ(version.exit_code, 0);
  for (const char* part : {"foldgrad ", "\ncommit ", "\ncompiler ", "\nCUDA ", "\ninstructions "})
    EXPECT_TRUE(contains(version.out, part));
  EXPECT_TRUE(contains(version.out, cuda_description()));
}

TEST(Program, ThreadsAreThoseAskedForBeforeOrBehindTheCommandAndDoctorSaysHowTheyWait) {
  for (const char* arguments : {"--threads 3 doctor", "doctor --threads 3"})
    EXPECT_TRUE(contains(run_program(arguments).out, "\nthreads            3\n")) << arguments;
  for (const auto& [threads, waiting] : {std::pair("1", "spins for 0.5 ms"), {"1024", "sleeps at once"}})
    EXPECT_TRUE(contains(run_program(std::string("doctor --threads ") + threads).out,
                         std::string("\nwaiting            ") + waiting))
        << threads;
}

void expect_usage_error(const std::string& arguments, const std::string& message) {
  const ProgramResult r = run_program(arguments);
  EXPECT_EQ(r.exit_code, 2) << arguments;
  EXPECT_EQ(r.out, "") << arguments;
  const std::string line = r.err.substr(0, r.err.find('\n'));
  EXPECT_EQ(message.ends_with(", ") ? line.substr(0, message.size() + 7) : line, "error: " + message) << arguments;
}

TEST(Program, UsageErrorsNameTheNearest) {
  expect_usage_error("norm", "there is no command \"norm\"; did you mean \"norms\"?");
  expect_usage_error("norms --thread 2", "there is no option --thread; did you mean --threads?");
  expect_usage_error("train --out nowhere", "CONFIG is required");
  expect_usage_error("norms --jsno", "there is no option --jsno; did you mean --json?");
  expect_usage_error("verify-traces --tolerence 1 x", "there is no option --tolerence; did you mean --tolerance?");
  expect_usage_error("--threads 1 train --out runs/r", "CONFIG is required");
  expect_usage_error("--threads 1 tarin a.toml", "there is no command \"tarin\"; did you mean \"train\"?");
  expect_usage_error("data ftech multi30k", "there is no command \"ftech\"; did you mean \"fetch\"?");
  expect_usage_error("train a.toml --outt runs/r", "there is no option --outt; did you mean --out?");
  expect_usage_error("train --outt=runs/r", "there is no option --outt; did you mean --out?");
  expect_usage_error("norms --zyx", "there is no option --zyx");
  expect_usage_error(
      "analyze trace runs/r --site x",
      "analyze is in the Python package: pip install . and python3 -m foldgrad.analyze (docs/python.md)");
  expect_usage_error("report r --tensorboard=x",
                     "--tensorboard is in the Python package: pip install . and python3 -m foldgrad.tensorboard "
                     "DIRECTORY RUN (docs/python.md)");
  expect_usage_error("train a.toml --lr 1e-3", "there is no option --lr; to set a key, use --set train.lr=VALUE");
  expect_usage_error("train a.toml --log-every=1",
                     "there is no option --log-every; to set a key, use --set output.log_every=VALUE");
  expect_usage_error("norms --lr 1", "there is no option --lr");
  expect_usage_error("train a.toml --set train.steps 300", "--set: train.steps must be SECTION.KEY=VALUE");
  expect_usage_error("verify m --device gpu:1",
                     "--device: must be auto, cpu, cuda, cuda:N or emulated, got gpu:1; did you mean cuda?");
  expect_usage_error("norms lnn", "there is no normalizer \"lnn\"; did you mean \"ln\"? There are: affine, bn, ");
  expect_usage_error("", "A subcommand is required");
  expect_usage_error("verify-traces", "FILE is required");
  for (const char* number : {"nan", "-nan", "-1"}) {
    expect_usage_error(
        fmt::format("verify-traces --tolerance={} x", number),
        fmt::format("--tolerance: must be a number from 0 to 1.7976931348623157e+308, got \"{}\"", number));
    expect_usage_error(fmt::format("translate m --length-penalty={}", number),
                       fmt::format("--length-penalty: must be a number from 0 to 1000000000, got \"{}\"", number));
    expect_usage_error(
        fmt::format("train a.toml --communication-timeout={}", number),
        fmt::format("--communication-timeout: must be a number from 0.001 to 1000000, got \"{}\"", number));
  }
  expect_usage_error("verify-traces --dtype f16 x", "--dtype: f16 not in {f64,f32}");
}

TEST(Program, ErrorsOfFileSystemsNamePathAndReason) {
  for (const char* command :
       {"train configs/multi30k-small.toml --out /proc/none --data-dir ", "translate ", "classify m "}) {
    const ProgramResult r = run_program(command + std::string(300, 'x'));
    EXPECT_TRUE(r.exit_code == 3 || r.exit_code == 4) << r.err;
    EXPECT_FALSE(contains(r.err, "filesystem error")) << r.err;
  }
}

TEST(Program, UsageErrorsNameTheHelpOfTheCommand) {
  for (const auto& [arguments, help] :
       {std::pair("", "foldgrad"), std::pair("trian", "foldgrad"), std::pair("train --resume", "foldgrad train"),
        std::pair("data", "foldgrad data"), std::pair("data fetch", "foldgrad data fetch")})
    EXPECT_TRUE(run_program(arguments).err.ends_with(std::string("\nSee ") + help + " --help.\n")) << arguments;
}

TEST(Program, NormsListsThemAll) {
  const ProgramResult text = run_program("norms"), json = run_program("norms --json");
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_EQ(json.exit_code, 0);
  const nlohmann::json all = nlohmann::json::parse(json.out);
  ASSERT_EQ(all.size(), normalizers().size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const NormalizerInfo& info = normalizers()[i];
    EXPECT_EQ(all[i]["name"], info.name);
    EXPECT_EQ(all[i]["offline"], info.offline());
    EXPECT_EQ(all[i]["options"].size(), info.options.size());
    EXPECT_TRUE(contains(text.out, " " + info.name + " ") || contains(text.out, " " + info.name + "\n")) << info.name;
    const ProgramResult one = run_program("norms " + info.name);
    EXPECT_TRUE(begins(one.out, info.name + ": " + info.summary + "\n"));
    for (const NormalizerOption& option : info.options) EXPECT_TRUE(contains(one.out, option.help)) << option.name;
  }
  EXPECT_LE(std::ranges::count(text.out, '\n'), 10);
  EXPECT_TRUE(contains(run_program("norms un").out, "4000"));
  const nlohmann::json two = nlohmann::json::parse(run_program("norms un ln --json").out);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0]["name"], "un");
  EXPECT_EQ(two[1]["name"], "ln");
}

TEST(Program, HelpOfACommandIsItsOptionHelp) {
  for (const auto& [words, option] : {std::pair("help", "--help"), std::pair("help norms", "norms --help"),
                                      std::pair("help data fetch", "data fetch --help")}) {
    const ProgramResult help = run_program(words);
    EXPECT_EQ(help.exit_code, 0) << words;
    EXPECT_EQ(help.out, run_program(option).out) << words;
  }
  expect_usage_error("help tarin", "there is no command \"tarin\"; did you mean \"train\"?");
}

TEST(Program, CompletesWhatIsTyped) {
  for (const auto& [typed, words] : {
           std::pair("tra", "train\ntranslate\n"),
           std::pair("help tra", "train\ntranslate\n"),
           std::pair("data f", "fetch\n"),
           std::pair("--threads 2 norms u", "un\n"),
           std::pair("train --da", "--data-dir\n"),
           std::pair("train --th", "--threads\n"),
           std::pair("data fetch --fr", "--from-file\n"),
           std::pair("verify-traces --dtype f", "f32\nf64\n"),
           std::pair("verify-traces --dtype=f6", "--dtype=f64\n"),
           std::pair("eval --device cu", "cuda\n"),
           std::pair("demo --norm pn_", "pn_star\n"),
           std::pair("train --set model.fam", "model.family=\n"),
           std::pair("train --set data.tokenizer=s", "data.tokenizer=sentencepiece\n"),
           std::pair("train --set data.lowercase=", "data.lowercase=false\ndata.lowercase=true\n"),
           std::pair("train --set norm.name=cen", "norm.name=centernorm\n"),
           std::pair("train --set norm.un.wa", "norm.un.warmup=\n"),
           std::pair("fold --out tra", ""),  // file names are not completed
           std::pair("train --out tra", ""),
           std::pair("train --out x --tf", "--tf32\n"),
           std::pair("train --tf32 con", ""),
       }) {
    const ProgramResult r = run_program(std::string("complete ") + typed);
    EXPECT_EQ(r.exit_code, 0) << typed;
    EXPECT_EQ(r.out, words) << typed;
  }
  EXPECT_EQ(lines_of(run_program("complete ''").out).size(), commands_of_the_program().size());
  EXPECT_EQ(run_program("complete").out, run_program("complete ''").out);
}

TEST(Program, ManualHasEveryCommandAndOption) {
  std::string manual = run_program("manual").out;
  std::erase(manual, '\\');
  std::size_t options = 0;
  for (const std::string& command : commands_of_the_program()) {
    const std::size_t at = manual.find(".SS \"foldgrad " + command);
    ASSERT_NE(at, manual.npos) << command;
    const std::string section = manual.substr(at, manual.find(".SS", at + 1) - at);
    for (const std::string& line : lines_of(run_program(command + " --help").out)) {
      const std::string option = line.substr(0, line.find_first_of(" ,", 2));
      if (!option.starts_with("  -") || option == "  -h") continue;
      EXPECT_TRUE(contains(section, "fB" + option.substr(2))) << command << option;
      ++options;
    }
  }
  EXPECT_GE(options, 100u);
}

TEST(Program, OutputsHaveTheSameNamesInEveryCommand) {
  for (const char* command : {"average", "export", "fold", "recalibrate", "report", "run"})
    EXPECT_TRUE(contains(run_program(std::string(command) + " --help").out, "  -o,--out,--output TEXT")) << command;
}

TEST(Program, SetTakesOneValueEachTime) {
  const std::string file = FOLDGRAD_SOURCE_DIR "/configs/multi30k.toml";
  const ProgramResult both = run_program("config --set train.steps=7 --set train.warmup=3 " + file);
  EXPECT_EQ(both.exit_code, 0) << both.err;
  for (const char* line : {"\nsteps = 7\n", "\nwarmup = 3\n", "\ndirectory = \"multi30k\"\n"})
    EXPECT_TRUE(contains(both.out, line)) << line;
  expect_failure(run_program("config " + file + " --set train.steps=7 train.warmup=3"), 2,
                 "train.warmup=3: unexpected argument");
  EXPECT_TRUE(contains(run_program("train --help").out, "  --set SECTION.KEY=VALUE "));
}

std::string document(const std::string& name) { return read_bytes(FOLDGRAD_SOURCE_DIR "/" + name); }

TEST(Docs, TheReadmeCountsTheNormalizers) {
  EXPECT_TRUE(contains(
      document("README.md"),
      fmt::format("\n{} normalizers share the interface in `models/normalizers/normalizer.h`", normalizers().size())));
}

TEST(Docs, TheReadmesProgramIsAnExample) {
  const std::string readme = document("README.md"), program = document("examples/mlp/mlp.cpp");
  const std::size_t begin = readme.find("```cpp\n") + 7;
  std::size_t place = 0, lines = 0;
  for (const std::string& line : lines_of(readme.substr(begin, readme.find("```", begin) - begin))) {
    if (line.empty()) continue;
    place = program.find(line + "\n", place);
    ASSERT_NE(place, std::string::npos) << line;
    ++lines;
  }
  EXPECT_GE(lines, 8u);
}

// Returns the commands that docs/commands.md lists in the first column of its table: "| `fold`, `verify` | ...".
std::set<std::string> documented_commands() {
  std::set<std::string> commands;
  bool table = false;
  for (const std::string& line : lines_of(document("docs/commands.md"))) {
    table = line.rfind("| command ", 0) == 0 || (table && line.rfind("|", 0) == 0);
    if (!table) continue;
    const std::vector<std::string> parts = lines_of(line.substr(1, line.find('|', 1) - 1), '`');
    for (std::size_t i = 1; i < parts.size(); i += 2) commands.insert(parts[i].substr(0, parts[i].find(' ')));
  }
  return commands;
}

TEST(Docs, CommandsAreAllInTheTable) {
  EXPECT_GE(commands_of_the_program().size(), 20u);
  EXPECT_EQ(documented_commands(), commands_of_the_program());
}

using DemoCommand = ProgramFiles;

TEST_F(DemoCommand, RefusesWrongOptionsAndADirectoryThatExists) {
  expect_usage_error("demo --norm unn",
                     "--norm: there is no normalizer \"unn\"; did you mean \"un\"? There are: affine, ");
  EXPECT_EQ(run_program("demo --steps 0").exit_code, 2);
  expect_error("demo --device cpu --out " + files_.path(), 3,
               files_.path() + ": already exists; remove it, or choose another directory with --out");
  EXPECT_EQ(files_.entries(), 0);
}

TEST_F(DemoCommand, EndsAtASignalWhenItHasTrained) {
  SpawnedProgram program("demo --norm ln --steps 1 --out " + files_ / "demo" + " >" + files_ / "out" + " 2>" +
                         files_ / "err");
  wait_until([&] { return program.ended() || (exists("out") && contains(bytes("out"), "$ foldgrad eval")); });
  program.send(SIGINT);
  EXPECT_EQ(program.end_signal(), SIGINT);
}

TEST_F(DemoCommand, HasTheConfigurationOfTheTree) {
  EXPECT_EQ(kDemoConfig, read_bytes(FOLDGRAD_SOURCE_DIR "/configs/numbers.toml"));
}

}  // namespace
}  // namespace foldgrad::testing
