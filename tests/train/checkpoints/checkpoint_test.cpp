#include "train/checkpoints/checkpoint.h"

#include "tests/harness/file_test.h"
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

using Checkpoint = FileTest;
using Digest = FileTest;

TEST_F(Digest, IsTheOneOfTheStandard) {  // the example "abc" of FIPS 180-4
  const std::string abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  EXPECT_EQ(sha256("abc"), abc);
  write("f", "abc");
  EXPECT_EQ(sha256_of_file(files_ / "f"), abc);
  const std::string large(3'000'001, 'x');  // sha256_of_file() reads it in blocks of 1 MiB
  write("f", large);
  EXPECT_EQ(sha256_of_file(files_ / "f"), sha256(large));
}

TEST_F(Checkpoint, ComesBackBitForBit) {
  const std::string at = files_ / "checkpoints";
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

TEST_F(Checkpoint, KeepsTheLastOnesAndTheBest) {
  for (std::int64_t step = 1; step <= 5; ++step)
    save_checkpoint(files_.path(), contents_of_step(step), {.keep = 2, .best = step < 2 ? -1 : 2});
  EXPECT_EQ(names_in(files_.path()),
            (std::vector<std::string>{"BEST", "LATEST", "step-00000002", "step-00000004", "step-00000005"}));
  EXPECT_EQ(bytes("BEST"), "step-00000002\n");
}

// After a rollback from step 20 to step 10, step 10 is the best again. The next save must correct BEST, whether it
// still names step 20 or contains nonsense. If the best step has no checkpoint, the save must remove BEST.
TEST_F(Checkpoint, NamesTheBestAgainAfterARollBack) {
  for (std::int64_t step : {10, 20}) save_checkpoint(files_.path(), contents_of_step(step), {.best = step});
  save_checkpoint(files_.path(), contents_of_step(15), {.keep = 1, .best = 10});
  EXPECT_EQ(bytes("BEST"), "step-00000010\n");
  EXPECT_EQ(load_checkpoint(files_ / "step-00000010").step, 10);
  write("BEST", "nonsense");
  save_checkpoint(files_.path(), contents_of_step(16), {.keep = 1, .best = 10});
  EXPECT_EQ(bytes("BEST"), "step-00000010\n");
  save_checkpoint(files_.path(), contents_of_step(17), {.keep = 1, .best = 11});
  EXPECT_EQ(names_in(files_.path()), (std::vector<std::string>{"LATEST", "step-00000017", "step-00000020"}));
}

TEST_F(Checkpoint, ReplacesOneOfTheSameStep) {
  CheckpointContents c = contents_of_step(7);
  save_checkpoint(files_.path(), c, {});
  c.state["epoch"] = 4;
  save_checkpoint(files_.path(), c, {});
  EXPECT_TRUE(same(load_newest_checkpoint(files_.path()).contents, c));
  EXPECT_EQ(files_.entries(), 2);
}

TEST_F(Checkpoint, GoesOnFromWhereTheRunWasTakenBackTo) {
  for (std::int64_t step : {10, 20, 15}) save_checkpoint(files_.path(), contents_of_step(step), {});
  EXPECT_EQ(load_newest_checkpoint(files_.path()).contents.step, 15);
  write("step-00000015/state.json", "{}");
  EXPECT_EQ(load_newest_checkpoint(files_.path()).contents.step, 10);
}

TEST_F(Checkpoint, FallsBackAndSaysWhy) {
  const std::string at = files_.path();
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
                at + "/step-00000003/model.safetensors: must have SHA-256 " + before +
                    " according to the manifest, got " + sha256(bytes),
                at + "/step-00000002/norm_state.safetensors: cannot be opened: No such file or directory"}));
}

TEST_F(Checkpoint, NamesWhatIsDamaged) {
  const std::string at = files_ / "step-00000001", manifest = "step-00000001/manifest.json", said = "@" + manifest;
  const auto refusal = [&] { return error_of<CheckpointError>([&] { load_checkpoint(at); }); };
  const auto load_with = [&](const std::string& from, const std::string& to) {
    save_checkpoint(files_.path(), contents_of_step(1), {});
    std::string text = bytes(manifest);
    text.replace(text.find(from), from.size(), to);
    write(manifest, text);
    return refusal();
  };
  EXPECT_EQ(refusal(), said + ": cannot be opened: No such file or directory");
  EXPECT_EQ(load_with("\"format_version\": 1", "\"format_version\": 2"), said + ": format_version must be 1, got 2");
  EXPECT_EQ(load_with("\"files\"", "\"filez\""), said + ": \"files\" must be an object, got nothing");
  EXPECT_EQ(load_with("\"model.safetensors\"", "\"other\""),
            said + ": \"model.safetensors\" must be an object, got nothing");
  save_checkpoint(files_.path(), contents_of_step(1), {});
  std::string state = read_bytes(at + "/state.json");
  write_bytes(at + "/state.json", state.substr(1));
  EXPECT_EQ(refusal(), "@step-00000001/state.json: must have " + std::to_string(state.size()) +
                           " bytes according to the manifest, got " + std::to_string(state.size() - 1));
  EXPECT_EQ(error_of<CheckpointError>([&] { load_newest_checkpoint(files_ / "none"); }),
            "@none: there are no checkpoints");
  EXPECT_EQ(error_of<CheckpointError>([&] { load_newest_checkpoint(files_.path()); }),
            files_.path() + ": none of 1 checkpoints can be loaded:\n" + refusal());
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
  EXPECT_EQ(average({model(1e8f), model(3), model(-1e8f)}).at("x").item(), 1);  // in f32, 1e8 + 3 is 1e8
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
