#include "train/reports/run_log.h"

#include <filesystem>

#include "engine/files/file.h"
#include "tests/train/program.h"

namespace foldgrad::testing {
namespace {

using Names = std::vector<std::string>;

class RunLogs : public ProgramFiles {
 protected:
  std::string run(const std::string& name, const std::string& log) {
    write(name + "/log.jsonl", log);
    return files_ / name;
  }
  std::string refusal(const std::string& path) {
    return error_of<FileError>([&] { read_run_log(path); });
  }
};

TEST_F(RunLogs, LogsOfRunsThatGoOn) {
  const std::string start = R"({"event":"start","step":0,"norm":"un"})"
                            "\n";
  EXPECT_EQ(summary_of(read_run_log(run("a", start + "{\"event\":\"tra"))).outcome, "unfinished");
  const std::string diverged = start + "{\"event\":\"diverged\",\"step\":3,\"message\":\"m\"}\n";
  EXPECT_EQ(summary_of(read_run_log(run("b", diverged))).outcome, "diverged");
  const std::string deep = R"({"event":"train","step":0,"a":)" + std::string(100'000, '[');
  const std::string step = "\"step\" must be an integer from 0 to 2^53, got ";
  for (const auto& [wrong, message] : std::vector<std::pair<std::string, std::string>>{
           {"[]", "must be an object, got an array"},
           {"{}", "\"event\" must be text, got nothing"},
           {"{", "is not JSON at byte 2"},
           {R"({"event":1,"step":0})", "\"event\" must be text, got 1"},
           {R"({"event":"train"})", step + "nothing"},
           {R"({"event":"train","step":"0"})", step + "\"0\""},
           {R"({"event":"train","step":-1})", step + "-1"},
           {R"({"event":"train","step":18446744073709551615})", step + "18446744073709551615"},
           {R"({"event":"start","step":0,"smaller_is_better":"x"})",
            "\"smaller_is_better\" must be true or false, got \"x\""},
           {R"({"event":"end","step":0,"outcome":[]})", "\"outcome\" must be text, got an array"},
           {R"({"event":"train","step":0,"seconds":{}})", "\"seconds\" must be a number, got an object"},
           {R"({"event":"layers","step":0,"normalizers":{}})", "\"gradient_norms\" must be an object, got nothing"},
           {R"({"event":"layers","step":0,"gradient_norms":{},"normalizers":[]})",
            "\"normalizers\" must be an object, got an array"},
           {R"({"event":"layers","step":0,"gradient_norms":{},"normalizers":{"a":1}})",
            "\"normalizers.a\" must be an object, got 1"},
           {R"({"event":"layers","step":0,"gradient_norms":{},"normalizers":{"a":{"skips":true}}})",
            "\"normalizers.a.skips\" must be a number, got true"},
           {deep, "must not be nested more than 64 deep"},
       })
    EXPECT_EQ(refusal(run("c", start + wrong + "\n")), "@c/log.jsonl: line 2 " + message) << wrong.substr(0, 100);
  EXPECT_EQ(refusal(files_ / "d"), "@d: is not a run (no log.jsonl)");
  EXPECT_EQ(refusal(files_.path()), files_.path() + ": is not a run (no log.jsonl); it contains: @a @b @c");
}

TEST(RunNames, AreTheFewestLastPartsThatTellApart) {
  EXPECT_EQ(distinct_names({"runs/un"}), Names{"un"});
  EXPECT_EQ(distinct_names({"a/un", "b/un/", "b/ln"}), (Names{"a/un", "b/un", "ln"}));
  EXPECT_EQ(distinct_names({"x/a/un", "y/a/un", "y/b/un"}), (Names{"x/a/un", "y/a/un", "b/un"}));
  EXPECT_EQ(distinct_names({"my-un", "un"}), (Names{"my-un", "un"}));  // compares whole parts of paths
  // A name may be the end of another name only if it is the run's whole path.
  EXPECT_EQ(distinct_names({"/un", "/b/un"}), (Names{"un", "b/un"}));
  EXPECT_EQ(distinct_names({"/a/un", "/b/a/un", "/b/un"}), (Names{"a/un", "b/a/un", "b/un"}));
  // Paths are resolved first, so "." gets the name of the current directory.
  EXPECT_EQ(distinct_names({"."}), Names{std::filesystem::current_path().filename()});
  EXPECT_EQ(distinct_names({"a/../b/./un"}), Names{"un"});
}

TEST(RunNames, ErrorsNameThePath) {
  EXPECT_EQ(message<std::invalid_argument>([] { distinct_names({"/"}); }), "runs: / is not a run directory");
  const Names twice{"a/un", "b", "./a//un/"};
  EXPECT_EQ(message<std::invalid_argument>([&] { distinct_names(twice); }),
            "runs: each run must be given only once, got ./a//un/ twice");
}

}  // namespace
}  // namespace foldgrad::testing
