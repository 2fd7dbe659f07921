#include "train/reports/report.h"

#include <cstdlib>

#include "engine/files/file.h"
#include "tests/train/program.h"

namespace foldgrad::testing {
namespace {

constexpr const char* kLog = R"({"event":"start","step":0,"steps":9,"norm":"un","parameters":1200,"device":"cpu"}
{"event":"train","step":5,"loss":3.5,"gradient_norm":2.0,"lr":0.1,"tokens_per_second":10.0,"seconds":61.0}
{"event":"validate","step":5,"loss":2.5,"perplexity":12.25,"bleu":7.125,"bleu_signature":"tok:13a","chrf":30.0,"seconds":1.0}
{"event":"layers","step":5,"gradient_norms":{"encoder.layers.0":0.5},"normalizers":{"encoder.layers.0.final_layer_norm":{"iterations":5,"skips":2,"least_variance":0.5,"greatest_variance":3.0},"decoder.layer_norm":{"iterations":5,"skips":1}}}
{"event":"not_finite","step":7,"action":"skip","message":"a<b & c"}
{"event":"train","step":9,"loss":null,"gradient_norm":1.0,"lr":0.1,"tokens_per_second":10.0,"seconds":2.0}
{"event":"validate","step":9,"loss":2.0,"perplexity":7.5,"bleu":7.0,"bleu_signature":"tok:13a","chrf":31.0,"seconds":1.0}
{"event":"end","step":9,"outcome":"finished"}
)";

class Report : public ProgramFiles {
 protected:
  std::string run(const std::string& name, const std::string& log) {
    write(name + "/log.jsonl", log);
    return files_ / name;
  }
};

TEST_F(Report, SummaryOfALog) {
  EXPECT_EQ(
      comparison_table({summary_of(read_run_log(run("a", kLog) + "/"))}),
      "run  normalizer  parameters  steps   outcome  best step  perplexity  BLEU  chrF2  skips  not finite  time\n"
      "a            un        1200      9  finished          5      12.250  7.12  30.00      3           1  1:05\n"
      "signature: tok:13a\n");
}

TEST_F(Report, ANormalizerInItsWarmUpIsMarked) {
  const auto marked = [this](const std::string& warmup) {  // the log has 5 iterations per layer
    const RunSummary s = summary_of(read_run_log(run("a", std::string(kLog).insert(1, warmup))));
    EXPECT_EQ(summary_json(s).contains("in_warmup"), s.in_warmup());
    return contains(comparison_table({s}), " un (never left its warm-up) ");
  };
  EXPECT_TRUE(marked("\"norm_warmup\":6,"));
  EXPECT_FALSE(marked("\"norm_warmup\":5,") || marked(""));
}

TEST_F(Report, SignaturesThatDifferNameTheirRuns) {
  RunSummary a, b, c, none;
  a.name = "a", b.name = "b", c.name = "c", none.name = "none";
  a.best = c.best = {1, {{"bleu", 3}}, "tok:13a"};
  b.best = {1, {{"bleu", 3}}, "tok:intl"};
  const std::string table = comparison_table({a, b, none, c});
  EXPECT_TRUE(table.ends_with("\nsignature of a, c: tok:13a\nsignature of b: tok:intl\n")) << table;
}

TEST_F(Report, SettingsThatDifferHaveALineEach) {
  const std::string a = run("a", kLog), b = run("b", kLog), c = run("c", kLog);
  write_bytes(a + "/config.toml", "[norm]\nname = \"un\"\n[norm.un]\nwarmup = 4000\n[train]\nlr = 3e-3\nsteps = 9\n");
  write_bytes(b + "/config.toml", "[norm]\nname = \"ln\"\n[train]\nlr = 3e-3\nsteps = 9\n");
  EXPECT_EQ(differences_table(read_run_logs({a, b})),
            "setting            a   b\n"
            "norm.name         un  ln\n"
            "norm.un.warmup  4000   -\n");
  EXPECT_EQ(differences_table(read_run_logs({b})), "");
  EXPECT_TRUE(differences_table(read_run_logs({b, c})).ends_with("\ntrain.lr     0.003  -\ntrain.steps      9  -\n"));
  write_bytes(a + "/config.toml", "[model]\nfamily = \"vit\"\npatch = 4\n[train]\nlr = 1\n");
  write_bytes(b + "/config.toml", "[model]\nfamily = \"cct\"\nconvolutions = 1\n[train]\nlr = 1\n");
  EXPECT_EQ(differences_table(read_run_logs({a, b})),
            "setting         a    b\n"
            "model.family  vit  cct\n"
            "keys that are missing in some runs: model.convolutions model.patch\n");
  write_bytes(c + "/config.toml", "[train");
  EXPECT_TRUE(begins(error_of<FileError>([&] {
                       differences_table(read_run_logs({b, c}));
                     }),
                     "@c/config.toml: is not TOML"));
  std::string key = "a";
  for (int i = 0; i < 100'000; ++i) key += ".a";
  write_bytes(c + "/config.toml", key + " = 1\n");
  EXPECT_THROW(differences_table(read_run_logs({b, c})), FileError);
}

TEST_F(Report, ShowsWhatATaskLeavesForIt) {
  const std::string plain = run("plain", kLog), seen = run("seen", kLog);
  const std::string exhibits = R"([{"title":"t","note":"n","matrix":{"names":["a"],"counts":[[1]]}},)"
                               R"({"title":"t","note":"n","pictures":[{"caption":"c","png":"Zg=="}]}])";
  write("seen/exhibits.json", exhibits);
  const auto data = report_data(read_run_logs({plain, seen}));
  EXPECT_FALSE(data["runs"][0].contains("exhibits"));
  EXPECT_EQ(data["runs"][1]["exhibits"].dump(), exhibits);
  const std::string deep(100'000, '[');
  for (const auto& [bad, message] : std::vector<std::pair<std::string, std::string>>{
           {"{", "is not JSON at byte 2"},
           {"7", "the exhibits must be an array, got 7"},
           {"{}", "the exhibits must be an array, got an object"},
           {"[7]", "exhibit 1 must be an object, got 7"},
           {"[{}]", "exhibit 1 must have \"title\""},
           {R"([{"title":"t","note":"n"}])", "exhibit 1 must have \"matrix\""},
           {R"([{"title":"t","note":"n","matrix":{"names":["a"]}}])", "exhibit 1: the matrix must have \"counts\""},
           {R"([{"title":"t","note":"n","matrix":[]}])", "exhibit 1: \"matrix\" must be an object, got an array"},
           {R"([{"title":"t","note":"n","matrix":{"names":[],"counts":[[true]]}}])",
            "exhibit 1: a count must be a number, got true"},
           {R"([{"title":"t","pictures":[]}])", "exhibit 1 must have \"note\""},
           {R"([{"title":1,"note":"t","pictures":[]}])", "exhibit 1: \"title\" must be text, got 1"},
           {R"([{"title":"t","note":"n","pictures":[{"caption":"c"}]}])", "exhibit 1: a picture must have \"png\""},
           {deep, "must not be nested more than 64 deep"},
           {R"([{"title":"t","note":"n","matrix":{"names":[],"counts":)" + deep,
            "must not be nested more than 64 deep"},
       }) {
    write("seen/exhibits.json", bad);
    EXPECT_EQ(error_of<FileError>([&] { report_data({read_run_log(seen)}); }), "@seen/exhibits.json: " + message)
        << bad.substr(0, 100);
  }
}

TEST_F(Report, EveryScoreHasAColumnWithItsDecimals) {
  RunSummary a, b;
  a.name = "a", a.norm = "ln";
  b.name = "b", b.norm = "bn";
  a.best = {1, {{"loss", 1}, {"perplexity", 2}, {"bleu", 3}, {"tokenized_bleu", 4}, {"chrf", 5}, {"exact", 6}}, ""};
  b.best = {2, {{"loss", 7}, {"accuracy", 8}}, ""};
  const std::string both = comparison_table({a, b}), table = comparison_table({b});
  EXPECT_EQ(both.substr(0, both.find('\n')),
            "run  normalizer  parameters  steps  outcome  best step  perplexity  BLEU  tokenized BLEU  chrF2  exact %  "
            "  loss "
            " accuracy  skips  not finite  time");
  EXPECT_EQ(both.substr(both.find('\n') + 1),
            "a            ln           0      0                   1       2.000  3.00            4.00   5.00      6.0  "
            "1.0000 "
            "        -      0           0  0:00\n"
            "b            bn           0      0                   2           -     -               -      -        -  "
            "7.0000 "
            "   8.0000      0           0  0:00\n");
  EXPECT_TRUE(contains(table, "best step    loss  accuracy  skips"));
  RunSummary images;
  images.best = {1, {{"loss", 1}, {"top1", 2}, {"top5", 34.5678}}, ""};
  const std::string of_images = comparison_table({images});
  EXPECT_TRUE(contains(of_images, "    loss  top-1 %  top-5 %  skips"));
  EXPECT_TRUE(contains(of_images, "  1.0000     2.00    34.57  "));
  RunSummary text;
  text.best = {1, {{"loss", 1}, {"perplexity", 2}, {"bits_per_character", 1.5}}, ""};
  EXPECT_TRUE(contains(comparison_table({text}), "best step  perplexity  bits per character  skips"));
}

TEST_F(Report, DataHaveSettingsAndGroupsOfSeeds) {
  const auto config = [](const char* lr, const char* seed) {
    return std::string("[norm]\nname = \"un\"\n[norm.un]\nwindow = 4\n[train]\nnesterov = false\nlr = ") + lr +
           "\nseed = " + seed + "\n";
  };
  const std::vector<std::pair<const char*, const char*>> settings{
      {"1e-3", "1"}, {"0.5", "1"}, {"1e-3", "2"}, {"0.5", "1"}, {"2e-3", "1"}};
  std::vector<RunLog> logs;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const std::string path = run(std::to_string(i), kLog);
    write_bytes(path + "/config.toml", config(settings[i].first, settings[i].second));
    logs.push_back(read_run_log(path));
  }
  logs.push_back(read_run_log(run("without", kLog)));
  logs.push_back(read_run_log(run("without too", kLog)));
  const auto data = report_data(logs);
  EXPECT_EQ(data["groups"], nlohmann::json::parse("[[0, 2], [1, 3]]"));
  EXPECT_EQ(data["runs"][2]["settings"], nlohmann::ordered_json::parse(R"({"norm.name": "un", "norm.un.window": "4",
      "train.lr": "0.001", "train.nesterov": "false", "train.seed": "2"})"));
  EXPECT_EQ(data["runs"][5]["settings"], nlohmann::json::object());
  EXPECT_EQ(data["runs"][0]["events"], logs[0].events);
  EXPECT_EQ(data["runs"][0]["best"]["step"], 5);
}

TEST_F(Report, DataHaveTheFilesThatAreThere) {
  const std::string path = run("a", kLog);
  write("a/samples/step-00000005.txt", "the first");
  write("a/samples/step-00000009.txt", "the last");
  write("a/env.json", "{}");
  EXPECT_EQ(report_data({read_run_log(path)})["runs"][0]["files"],
            nlohmann::ordered_json::parse(R"([{"title": "Samples of the last validation", "text": "the last"},
                                              {"title": "env.json", "text": "{}"}])"));
  write("a/config.toml", "lr =");
  const RunLog log = read_run_log(path);
  EXPECT_TRUE(begins(message<FileError>([&] { report_data({log}); }), path + "/config.toml: is not TOML: "));
}

TEST_F(Report, PageHoldsTheDataWhateverTheText) {
  const std::string name = "a<b>&{{data}}", evil = "</script><!--<script> & \"{{title}}\" \xff";
  const std::string path = run(name, kLog);
  write_bytes(path + "/env.json", evil);
  const std::string html = report_html({read_run_log(path)});
  EXPECT_TRUE(contains(html, "<title>a&lt;b&gt;&amp;{{data}}</title>"));
  const std::string open = R"(<script id="data" type="application/json">)";
  const std::size_t begin = html.find(open) + open.size();
  const std::size_t end = html.find("</script", begin);  // a browser ends the element here
  const auto data = nlohmann::ordered_json::parse(html.substr(begin, end - begin));
  EXPECT_EQ(data["runs"][0]["name"], name);
  EXPECT_EQ(data["runs"][0]["files"][0]["text"], evil.substr(0, evil.size() - 1) + "\xEF\xBF\xBD");
  EXPECT_FALSE(contains(html, "<!--"));
}

TEST_F(Report, PageNeedsNoOtherFile) {
  const std::string html = report_html({read_run_log(run("a", kLog))});
  for (const char* loads : {" src=", " href=", "@import", "url("}) EXPECT_FALSE(contains(html, loads)) << loads;
}

// Null values and scores that are not numbers must count as missing.
TEST_F(Report, FieldsWithoutAValueAreLeftOut) {
  const std::string log = R"({"event":"start","step":0,"norm":null,"parameters":null}
{"event":"validate","step":1,"loss":null,"perplexity":[],"bleu":{},"bleu_signature":0,"seconds":null}
{"event":"layers","step":1,"gradient_norms":{"a":"x"},"normalizers":{"s":{"skips":null}}}
{"event":"not_finite","step":1,"message":null}
{"event":"end","step":1,"outcome":null}
)";
  const RunLog read = read_run_log(run("a", log));
  const RunSummary s = summary_of(read);
  EXPECT_EQ(s.norm + s.outcome, "");
  EXPECT_EQ(s.parameters + s.skips, 0);
  EXPECT_EQ(report_data({read})["runs"][0]["events"], read.events);
}

// First, xdg-open is a script that logs its argument, then a script that fails. Finally, it is missing.
TEST_F(Report, IsOpenedInTheBrowser) {
  run("a", kLog);
  const std::string path = std::getenv("PATH"), page = files_ / "a/report.html", bin = files_ / "bin";
  const auto report_in = [&](const std::string& search_path) {
    setenv("PATH", search_path.c_str(), 1);
    const ProgramResult r = run_program("report --open " + files_ / "a");
    setenv("PATH", path.c_str(), 1);
    EXPECT_EQ(r.exit_code, 0);
    EXPECT_EQ(r.out, page + "\n");
    return r.err;
  };
  const auto report_with = [&](const std::string& script) {
    write("bin/xdg-open", script);
    std::filesystem::permissions(bin + "/xdg-open", std::filesystem::perms::owner_all);
    return report_in(bin + ":" + path);
  };
  EXPECT_EQ(report_with("#!/bin/sh\necho opening\necho \"$@\" >" + files_ / "opened\n"), "");
  EXPECT_EQ(bytes("opened"), page + "\n");
  EXPECT_EQ(report_with("#!/bin/sh\nexit 3\n"), "warning: --open: xdg-open could not show " + page + "\n");
  std::filesystem::remove(bin + "/xdg-open");
  EXPECT_EQ(report_in(bin), "warning: --open: there is no program xdg-open (apt-get install xdg-utils)\n");
}

TEST_F(Report, Commands) {
  for (const char* name : {"x/un", "y/un"}) run(name, kLog);
  EXPECT_EQ(output("report @x/un"), filled("@x/un/report.html\n"));
  EXPECT_TRUE(begins(bytes("x/un/report.html"), "<!DOCTYPE html>"));
  const auto rows = parsed("compare --json @x/un @y/un");
  EXPECT_EQ(rows.at(0).at("name"), "x/un");
  EXPECT_EQ(rows.at(1).at("name"), "y/un");
  EXPECT_EQ(rows.at(0).at("best").at("bleu"), 7.125);
  EXPECT_EQ(ProgramFiles::run("compare @x/un @x/un").exit_code, 2);
  expect_error("compare @b", 3, "@b: is not a run (no log.jsonl)");
}

}  // namespace
}  // namespace foldgrad::testing
