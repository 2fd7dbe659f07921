#include "train/checkpoints/checkpoint.h"

#include <gtest/gtest.h>

#include "tests/engine/error_message.h"
#include "tests/engine/files/temporary_directory.h"
#include "tests/harness/properties.h"
#include "tests/train/checkpoints/contents.h"
#include "train/checkpoints/average.h"
#include "train/system/digest.h"

namespace foldgrad::testing {
namespace {

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Digest, IsTheOneOfTheStandard) {  // FIPS 180-4, the example "abc"
  const std::string abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  EXPECT_EQ(sha256("abc"), abc);
  const TemporaryDirectory directory;
  write_bytes(directory / "f", "abc");
  EXPECT_EQ(sha256_of_file(directory / "f"), abc);
  const std::string large(3'000'001, 'x');  // several blocks
  write_bytes(directory / "f", large);
  EXPECT_EQ(sha256_of_file(directory / "f"), sha256(large));
}

TEST(Checkpoint, ComesBackBitForBit) {
  const TemporaryDirectory directory;
  const std::string at = directory / "checkpoints";
  save_checkpoint(at, contents_of_step(12000), {});
  const NewestCheckpoint newest = load_newest_checkpoint(at);
  EXPECT_TRUE(same(newest.contents, contents_of_step(12000)));
  EXPECT_EQ(newest.path, at + "/step-00012000");
  EXPECT_TRUE(newest.warnings.empty());
  EXPECT_EQ(names_in(at), (std::vector<std::string>{"LATEST", "step-00012000"}));
  EXPECT_EQ(names_in(newest.path),
            (std::vector<std::string>{"manifest.json", "model.safetensors", "norm_state.safetensors",
                                      "optimizer.safetensors", "state.json"}));
  EXPECT_EQ(read_bytes(at + "/LATEST"), "step-00012000\n");
}

TEST(Checkpoint, KeepsTheLastOnesAndTheBest) {
  const TemporaryDirectory directory;
  for (std::int64_t step = 1; step <= 5; ++step)
    save_checkpoint(directory.path(), contents_of_step(step), {.keep = 2, .best = step == 2});
  EXPECT_EQ(names_in(directory.path()),
            (std::vector<std::string>{"BEST", "LATEST", "step-00000002", "step-00000004", "step-00000005"}));
  EXPECT_EQ(read_bytes(directory / "BEST"), "step-00000002\n");
}

TEST(Checkpoint, ReplacesOneOfTheSameStep) {
  const TemporaryDirectory directory;
  CheckpointContents c = contents_of_step(7);
  save_checkpoint(directory.path(), c, {});
  c.state["epoch"] = 4;
  save_checkpoint(directory.path(), c, {});
  EXPECT_TRUE(same(load_newest_checkpoint(directory.path()).contents, c));
  EXPECT_EQ(directory.entries(), 2);
}

TEST(Checkpoint, GoesOnFromWhereTheRunWasTakenBackTo) {
  const TemporaryDirectory directory;
  for (std::int64_t step : {10, 20, 15}) save_checkpoint(directory.path(), contents_of_step(step), {});
  EXPECT_EQ(load_newest_checkpoint(directory.path()).contents.step, 15);
  write_bytes(directory / "step-00000015/state.json", "{}");
  EXPECT_EQ(load_newest_checkpoint(directory.path()).contents.step, 10);
}

TEST(Checkpoint, FallsBackAndSaysWhy) {
  const TemporaryDirectory directory;
  const std::string at = directory.path();
  for (std::int64_t step : {1, 2, 3}) save_checkpoint(at, contents_of_step(step), {});
  std::string bytes = read_bytes(at + "/step-00000003/model.safetensors");
  const std::string before = sha256(bytes);
  bytes.back() ^= 1;
  write_bytes(at + "/step-00000003/model.safetensors", bytes);
  std::filesystem::remove(at + "/step-00000002/norm_state.safetensors");
  const NewestCheckpoint newest = load_newest_checkpoint(at);
  EXPECT_EQ(newest.contents.step, 1);
  EXPECT_EQ(newest.warnings,
            (std::vector<std::string>{
                at + "/step-00000003/model.safetensors: must have SHA-256 " + before + " by the manifest, got " +
                    sha256(bytes),
                at + "/step-00000002/norm_state.safetensors: cannot be opened: No such file or directory"}));
}

TEST(Checkpoint, NamesWhatIsDamaged) {
  const TemporaryDirectory directory;
  const std::string at = directory / "step-00000001", manifest = at + "/manifest.json";
  const auto refusal = [&] { return message<CheckpointError>([&] { load_checkpoint(at); }); };
  const auto load_with = [&](const std::string& from, const std::string& to) {
    save_checkpoint(directory.path(), contents_of_step(1), {});
    std::string text = read_bytes(manifest);
    text.replace(text.find(from), from.size(), to);
    write_bytes(manifest, text);
    return refusal();
  };
  EXPECT_EQ(refusal(), manifest + ": cannot be opened: No such file or directory");
  EXPECT_EQ(load_with("\"format_version\": 1", "\"format_version\": 2"),
            manifest + ": format_version must be 1, got 2");
  EXPECT_EQ(load_with("\"files\"", "\"filez\""), manifest + ": \"files\" is missing or of another type");
  EXPECT_EQ(load_with("\"model.safetensors\"", "\"other\""),
            manifest + ": \"model.safetensors\" is missing or of another type");
  EXPECT_EQ(load_with("{", "?"), manifest + ": is not JSON at byte 1");
  const std::string out_of_range = load_with("\"format_version\": 1", "\"format_version\": 1e400");
  EXPECT_TRUE(out_of_range.starts_with(manifest + ": ")) << out_of_range;
  save_checkpoint(directory.path(), contents_of_step(1), {});
  std::string state = read_bytes(at + "/state.json");
  write_bytes(at + "/state.json", state.substr(1));
  EXPECT_EQ(refusal(), at + "/state.json: must have " + std::to_string(state.size()) + " bytes by the manifest, got " +
                           std::to_string(state.size() - 1));
  const std::string none = directory / "none";
  EXPECT_EQ(message<CheckpointError>([&] { load_newest_checkpoint(none); }), none + ": there are no checkpoints");
  EXPECT_EQ(message<CheckpointError>([&] { load_newest_checkpoint(directory.path()); }),
            directory.path() + ": none of 1 checkpoints can be loaded:\n" + refusal());
}

RC_GTEST_PROP(Checkpoint, NeverLoadsOtherValuesFromDamagedFiles, ()) {
  static const TemporaryDirectory directory;  // saved once: bringing files to the disk takes most of the time
  const CheckpointContents c = contents_of_step(1);
  const std::string at = directory / "step-00000001";
  if (!std::filesystem::exists(at)) save_checkpoint(directory.path(), c, {});
  const std::string file = at + "/" + *rc::gen::elementOf(names_in(at));
  const std::string whole = read_bytes(file);
  std::string bytes = whole;
  const auto place = *rc::gen::inRange<std::size_t>(0, bytes.size());
  if (*rc::gen::arbitrary<bool>())
    bytes.resize(place);
  else
    bytes[place] = char(bytes[place] ^ (1 << *rc::gen::inRange(0, 8)));
  write_bytes(file, bytes);
  bool other = false;
  try {
    other = !same(load_checkpoint(at), c);
  } catch (const CheckpointError&) {
  }
  write_bytes(file, whole);
  RC_ASSERT(!other);
}

TEST(Average, AVG_1_AVG_2_WorkedByHand) {
  const auto model = [](float x, double y, std::int64_t counter) {
    return NamedTensors{{"x", Tensor::of<float>({2}, {x, -x})},
                        {"y", Tensor::of<double>({}, {y})},
                        {"iters", Tensor::of<std::int64_t>({2}, {counter, -counter})}};
  };
  const NamedTensors a = average({model(1, 0.5, 3), model(2, 0.25, 5), model(6, 0.75, 6)});
  EXPECT_EQ(a.at("x").values<float>(), (std::vector<float>{3, -3}));
  EXPECT_EQ(a.at("y").values<double>(), (std::vector<double>{0.5}));
  EXPECT_EQ(a.at("iters").values<std::int64_t>(), (std::vector<std::int64_t>{4, -5}));  // floor(14 / 3), floor(-14 / 3)
}

TEST(Average, AVG_1_SumsInDouble) {
  const auto model = [](float x) { return NamedTensors{{"x", Tensor::of<float>({1}, {x})}}; };
  EXPECT_EQ(average({model(1e8f), model(3), model(-1e8f)}).at("x").item(), 1);  // 1e8f + 3 is 1e8f
}

TEST(Average, KeepsShapesAndTypes) {
  const NamedTensors models{{"a", Tensor::zeros({2, 0}, DType::bf16)},
                            {"b", Tensor::of<std::uint8_t>({1, 2}, {1, 255})}};
  const NamedTensors a = average({models, models});
  EXPECT_EQ(a.at("a").shape(), Shape({2, 0}));
  EXPECT_EQ(a.at("a").dtype(), DType::bf16);
  EXPECT_EQ(a.at("b").shape(), Shape({1, 2}));
  EXPECT_EQ(a.at("b").values<std::uint8_t>(), (std::vector<std::uint8_t>{1, 255}));
}

TEST(Average, RefusesWhatDiffers) {
  const auto refusal = [](const std::vector<NamedTensors>& models) {
    return testing::message<std::invalid_argument>([&] { average(models); });
  };
  const NamedTensors one{{"x", Tensor::zeros({2}, DType::f32)}};
  EXPECT_EQ(refusal({}), "average: there must be at least 1 model, got 0");
  EXPECT_EQ(refusal({one, {}}), "average: the saved state has no x");
  EXPECT_EQ(refusal({one, {{"x", Tensor::zeros({3}, DType::f32)}}}),
            "average: x of the saved state must be f32 [2], got f32 [3] on cpu");
}

}  // namespace
}  // namespace foldgrad::testing
