// Fuzz tests of safetensors, recordings, models, checkpoints, inputs of `foldgrad run`, traces and images.
#include <CLI/CLI.hpp>

#include "engine/files/safetensors.h"
#include "tests/models/gpt/tiny_gpt.h"
#include "tests/models/vit/tiny_vit.h"
#include "tests/train/checkpoints/contents.h"
#include "tests/train/fuzz/fuzz.h"
#include "tests/train/padded_inputs.h"
#include "tests/train/tasks/classification/images/counting_images.h"
#include "tests/train/tasks/classification/images/png_file.h"
#include "train/analyses/recording.h"
#include "train/checkpoints/model_directory.h"
#include "train/checks/trace.h"
#include "train/commands/commands.h"
#include "train/tasks/classification/images/cifar.h"
#include "train/tasks/classification/images/picture.h"

namespace foldgrad::testing {
namespace {

using FuzzSafetensors = Fuzz;

TEST_F(FuzzSafetensors, AnyFile) {
  const std::string path = files_ / "a.safetensors";
  write_safetensors(path,
                    {{"a", Tensor::of<float>({2}, {1, -2})},
                     {"b", Tensor::of<std::int64_t>({2, 1}, {-1, 7})},
                     {"c", Tensor::zeros({0, 3}, DType::u8)}},
                    {{"key", "value"}});
  fuzz("a.safetensors", &Mutator::safetensors, 3000, 20, [&] { read_safetensors(path); });
}

using FuzzRecording = Fuzz;

TEST_F(FuzzRecording, AnyFile) {
  const std::string path = files_ / "begin.safetensors";
  write_recording(path, {"un", {3, 4}, {{"a.norm", 1, {1, 2}, {3, 4}, {5, 6}, {7, 8}, {0, 1}}}});
  fuzz("begin.safetensors", &Mutator::safetensors, 1000, 20, [&] { read_recording(path); });
}

// Runs `foldgrad run MODEL --input INPUT --output OUTPUT`.
void run_command(const std::string& model, const std::string& input, const std::string& output) {
  CLI::App program;
  const Action run = add_run(program);
  // CLI11 expects the last argument first.
  std::vector<std::string> arguments{output, "--output", input, "--input", model};
  program.parse(arguments);
  run();
}

// A family, with functions that make a small model and its inputs for `foldgrad run`.
struct Fuzzed {
  const char* family;
  std::unique_ptr<Model> (*make)();
  NamedTensors (*inputs)();
};

class FuzzModel : public Fuzz, public ::testing::WithParamInterface<Fuzzed> {
 protected:
  FuzzModel() {
    const std::unique_ptr<Model> model = GetParam().make();
    randomize(*model, 5);
    write_model_directory(files_ / "m", *model);
  }
};

TEST_P(FuzzModel, Configuration) {
  fuzz("m/config.json", &Mutator::words, 700, 30, [&] { load_model(files_ / "m"); });
}

TEST_P(FuzzModel, WeightsAndState) {
  for (const char* file : {"m/model.safetensors", "m/norm_state.safetensors"})
    fuzz(file, &Mutator::safetensors, 300, 20, [&] { load_model(files_ / "m"); });
}

TEST_P(FuzzModel, InputOfRun) {
  const std::string path = files_ / "in.safetensors", output = files_ / "out.safetensors";
  write_safetensors(path, GetParam().inputs());
  fuzz("in.safetensors", &Mutator::safetensors, 600, 50, [&] { run_command(files_ / "m", path, output); });
}

std::unique_ptr<Model> translator() { return std::make_unique<Transformer>(tiny_config("un"), 3); }
std::unique_ptr<Model> classifier() {
  VitConfig config = tiny_vit("un");
  config.class_names = {"cat", "dog", "eel", "fly", "gnu"};
  return std::make_unique<Vit>(config, 3);
}
NamedTensors bytes_of_images() { return {{"images", counting_images(2, 4, 4, 5).pixels}}; }
std::unique_ptr<Model> predictor() { return std::make_unique<Gpt>(tiny_gpt("un"), 3); }
NamedTensors sequences() { return {{"ids", random_ids({2, 5}, tiny_gpt().vocabulary, 1)}}; }
const Fuzzed kFamilies[] = {{"transformer", translator, [] { return padded_inputs(); }},
                            {"vit", classifier, bytes_of_images},
                            {"gpt", predictor, sequences}};
INSTANTIATE_TEST_SUITE_P(Families, FuzzModel, ::testing::ValuesIn(kFamilies),
                         [](const auto& info) { return info.param.family; });

using FuzzCheckpoint = Fuzz;

// Checkpoints have digests, so a mutant that is accepted must load as the saved checkpoint.
TEST_F(FuzzCheckpoint, AnyOfItsFiles) {
  const CheckpointContents saved = contents_of_step(3);
  save_checkpoint(files_.path(), saved, {});
  const std::string directory = files_ / "step-00000003";
  for (const char* file :
       {"manifest.json", "state.json", "optimizer.safetensors", "model.safetensors", "norm_state.safetensors"}) {
    // Nearly all mutants are rejected. Only equivalent changes, such as white space, are accepted.
    const int rarely = file == std::string("manifest.json") ? 200 : 1'000'000;
    fuzz(std::string("step-00000003/") + file, &Mutator::words, 400, rarely,
         [&] { EXPECT_TRUE(same(load_checkpoint(directory), saved)); });
  }
}

using FuzzTrace = Fuzz;

TEST_F(FuzzTrace, OfAnyNormalizer) {
  std::vector<std::string> good;
  for (const char* name : {"bn_0", "ln_0", "mabn_0", "un_paper_5", "un_reference_0"})
    good.push_back(read_bytes(FOLDGRAD_SOURCE_DIR "/tests/golden/" + std::string(name) + ".safetensors"));
  fuzz(
      "trace.safetensors", &Mutator::safetensors, 1000, 20,
      [&] { replay_trace(files_ / "trace.safetensors", DType::f64, Device::cpu, 1e-12); }, good);
}

using FuzzCifar = Fuzz;

// Any bytes are valid pixels. A file is rejected if its length is wrong, or if a label is not a class.
TEST_F(FuzzCifar, RecordsAndNames) {
  std::string good;
  for (const char label : {0, 1, 1}) good += label + std::string(3 * kCifarSide * kCifarSide, 'p');
  write("test_batch.bin", good);
  write("batches.meta.txt", "cat\ndog\n");
  const auto read = [&] { foldgrad::check(read_cifar(files_.path(), cifar10_layout(), ImagePart::test)); };
  fuzz("test_batch.bin", &Mutator::bytes, 500, 20, read);
  fuzz("batches.meta.txt", &Mutator::words, 500, 20, read);
}

class FuzzPictures : public Fuzz {
 protected:
  void damage(const std::string& good, int inputs, int rarely, const std::function<std::string(std::string)>& repair) {
    write("picture", good);
    fuzz(
        "picture", [&](Mutator& m, const std::string& file) { return repair(m.bytes(file)); }, inputs, rarely,
        [&] {
          const Picture p = read_picture(files_ / "picture");
          EXPECT_EQ(std::int64_t(p.pixels.size()), p.height * p.width * 3);
          EXPECT_LE(p.height * p.width, kMostPixels);
        });
  }
};

// Corrects the checksums of chunks; otherwise libpng would reject most mutants because of these.
std::string with_check_sums(std::string file) {
  for (std::size_t at = 8; at + 12 <= file.size();) {
    std::size_t size = 0;
    for (int i = 0; i < 4; ++i) size = size << 8 | std::uint8_t(file[at + i]);
    if (size > file.size() - at - 12) break;
    file.replace(at + 8 + size, 4, big_endian(crc32(file.substr(at + 4, 4 + size))));
    at += 12 + size;
  }
  return file;
}

TEST_F(FuzzPictures, Png) {
  if (!png_available()) GTEST_SKIP() << "this build lacks libpng";
  const std::string palette = chunk("gAMA", big_endian(45455)) + chunk("PLTE", {9, 8, 7, 6, 5, 4, 3, 2, 1});
  for (const std::string& good :
       {png_file(3, 2, 8, PngColour::rgba, "abcdefghijklmnopqrstuvwx"), png_file(2, 2, 16, PngColour::gray, "abcdefgh"),
        png_file(5, 2, 2, PngColour::palette, "\x18\x40\x90\x80", palette)})
    damage(good, 500, 50, with_check_sums);
  damage(png_file(3, 1, 8, PngColour::rgb, "abcdefghi"), 300, 300, [](std::string file) { return file; });
}

TEST_F(FuzzPictures, Jpeg) {
  if (!jpeg_available()) GTEST_SKIP() << "this build lacks libjpeg-turbo";
  for (const char* name : {"colours.jpg", "progressive.jpg", "gray.jpg"})
    damage(read_bytes(FOLDGRAD_SOURCE_DIR "/tests/golden/pictures/" + std::string(name)), 500, 50,
           [](std::string file) { return file; });
}

}  // namespace
}  // namespace foldgrad::testing
