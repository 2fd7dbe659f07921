// Files for other programs: heat maps as SVG, events for TensorBoard.
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "tests/train/program.h"
#include "train/reports/report.h"
#include "train/reports/tensorboard.h"

namespace foldgrad::testing {
namespace {

// The first row is the lowest.
TEST(HeatMap, HasARectangleForEachCellWithAValue) {
  const std::string svg = heat_map({"a < b & c", "x", "y", {{0, 1, 0.375}, {1, NAN, -2}}});
  EXPECT_TRUE(begins(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 174 156\""));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_TRUE(contains(svg, ">a &lt; b &amp; c</text>"));
  const auto cell = [&](int x, int y, const char* colour, const char* title) {
    return contains(svg, "<rect x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) +
                             "\" width=\"18\" height=\"18\" fill=\"" + colour + "\"><title>" + title + "</title>");
  };
  EXPECT_TRUE(cell(60, 78, "rgb(0,0,4)", "1, 1: 0.0000")) << svg;
  EXPECT_TRUE(cell(78, 78, "rgb(252,253,191)", "2, 1: 1.0000")) << svg;
  EXPECT_TRUE(cell(96, 78, "rgb(132,37,123)", "3, 1: 0.3750")) << svg;  // halfway from the second colour to the third
  EXPECT_TRUE(cell(60, 60, "rgb(252,253,191)", "1, 2: 1.0000")) << svg;
  EXPECT_TRUE(cell(96, 60, "rgb(0,0,4)", "3, 2: -2.0000")) << svg;
  EXPECT_FALSE(contains(svg, "2, 2: "));
}

using namespace std::string_literals;  // with zeros in them

constexpr const char* kRunLog = R"({"event":"start","step":0,"steps":300,"norm":"un"}
{"event":"train","step":5,"loss":0.5,"lr":null,"seconds":2.0}
{"event":"layers","step":300,"gradient_norms":{"a":1.0},"normalizers":{"s":{"iterations":9,"skips":2,"word":"x"}}}
{"event":"end","step":300,"outcome":"finished"}
)";

class TensorBoard : public ProgramFiles {
 protected:
  std::string run(const std::string& name) {
    write(name + "/log.jsonl", kRunLog);
    return files_ / name;
  }
};

TEST(Crc32c, OfRfc3720) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
}

// Returns the contents of records; each is length (8 bytes), checksum (4), content, checksum (4).
std::vector<std::string> contents_of(const std::string& file) {
  std::vector<std::string> contents;
  for (std::size_t at = 0; at < file.size(); at += contents.back().size() + 16) {
    std::size_t length = 0;
    for (std::size_t i = 8; i-- > 0;) length = length << 8 | std::uint8_t(file.at(at + i));
    contents.push_back(file.substr(at + 12, length));
  }
  return contents;
}

TEST_F(TensorBoard, EventsWorkedByHand) {
  const auto events = contents_of(tensorboard_events(read_run_log(run("a")), 0));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0], "\x09\0\0\0\0\0\0\0\0\x1a\x0d"s + "brain.Event:2");
  // Time 2.0, step 5, and a summary of 2 + 17 + 2 + 20 bytes; 0.5 and 2.0 as f32.
  EXPECT_EQ(events[1], "\x09\0\0\0\0\0\0\0\x40\x10\x05\x2a\x29"s + "\x0a\x11\x0a\x0atrain/loss\x15\0\0\0\x3f"s +
                           "\x0a\x14\x0a\x0dtrain/seconds\x15\0\0\0\x40"s);
  // 300 = 0xac 0x02 in groups of 7 bits; a summary of 2 + 22 + 2 + 14 bytes. "layers" take no time.
  EXPECT_EQ(events[2], "\x09\0\0\0\0\0\0\0\x40\x10\xac\x02\x2a\x28"s +
                           "\x0a\x16\x0a\x0fgradient_norm/a\x15\0\0\x80\x3f"s +
                           "\x0a\x0e\x0a\x07skips/s\x15\0\0\0\x40"s);
}

TEST_F(TensorBoard, ChecksumsAreMasked) {
  const std::string file = tensorboard_events(read_run_log(run("a")), 0);
  const auto checksum = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 4; i-- > 0;) value = value << 8 | std::uint8_t(file.at(at + i));
    return value;
  };
  const auto masked = [](std::uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; };
  EXPECT_EQ(checksum(8), masked(crc32c("\x18\0\0\0\0\0\0\0"s)));
  EXPECT_EQ(checksum(12 + 24), masked(crc32c(file.substr(12, 24))));
}

TEST_F(TensorBoard, CommandWritesAFileForEachRun) {
  for (const char* name : {"x/un", "y/un"}) run(name);
  const std::chrono::sys_seconds end(std::chrono::seconds(1'000'000'002));  // of a run of two seconds
  std::filesystem::last_write_time(files_ / "y/un/log.jsonl", std::chrono::file_clock::from_sys(end));
  const std::string report = "report @x/un @y/un -o @r.html --tensorboard ", name = "/events.out.tfevents.foldgrad";
  EXPECT_EQ(output(report + "@to"), filled("@r.html\n@to/x/un" + name + "\n@to/y/un" + name + "\n"));
  const auto events = contents_of(bytes("to/y/un" + name));
  ASSERT_EQ(events.size(), 3u);
  double begin;
  std::memcpy(&begin, events[0].data() + 1, sizeof begin);
  EXPECT_EQ(begin, 1e9);
  write("file", "");
  expect_error(report + "@file", 3, "@file/x/un: cannot be created: Not a directory");
}

}  // namespace
}  // namespace foldgrad::testing
