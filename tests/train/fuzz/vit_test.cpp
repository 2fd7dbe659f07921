// Damaged configurations of vision Transformers, and images for `foldgrad run`.
#include "engine/files/safetensors.h"
#include "tests/models/vit/tiny_vit.h"
#include "tests/train/fuzz/fuzz.h"
#include "tests/train/fuzz/run_silently.h"
#include "train/checkpoints/model_directory.h"

namespace foldgrad::testing {
namespace {

class FuzzVit : public Fuzz {
 protected:
  FuzzVit() {
    VitConfig config = tiny_vit("un");
    config.class_names = {"cat", "dog", "eel", "fly", "gnu"};
    Vit model(config, 3);
    randomize(model, 5);
    write_model_directory(files_ / "m", model);
  }
};

TEST_F(FuzzVit, Configuration) {
  const std::string path = files_ / "m/config.json", good = read_bytes(path);
  fuzz(
      400, path, 20, [&](Mutator& m) { return m.words(good); }, [&] { load_model(files_ / "m"); });
}

TEST_F(FuzzVit, InputOfRun) {
  const std::string path = files_ / "in.safetensors", output = files_ / "out.safetensors";
  const Tensor bytes = Tensor::empty({2, 4, 4, 3}, DType::u8);
  for (std::int64_t i = 0; i < bytes.size(); ++i) bytes.data<std::uint8_t>()[i] = std::uint8_t(7 * i);
  write_safetensors(path, {{"images", bytes}});
  const std::string good = read_bytes(path);
  fuzz(
      300, path, 50, [&](Mutator& m) { return m.safetensors(good); },
      [&] { run_silently(files_ / "m", path, output); });
}

}  // namespace
}  // namespace foldgrad::testing
