#include "train/data/data_sets.h"

#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>

namespace foldgrad {
namespace {

Download of_multi30k(const std::string& file, const std::string& sha256) {
  return {{"https://raw.githubusercontent.com/neychev/small_DL_repo/master/datasets/Multi30k/" + file,
           "http://www.quest.dcs.shef.ac.uk/wmt16_files_mmt/" + file},
          sha256,
          file};
}

Download of_toronto(const std::string& file, const std::string& sha256) {
  return {{"https://www.cs.toronto.edu/~kriz/" + file}, sha256, file};
}

}  // namespace

// Mirrors and digests of Multi30k are from torchtext 0.18 and its issue 1756, digests of CIFAR's archives from
// TensorFlow Datasets and MLDatasets.jl, and digests of the files in them from ankane/torchvision-ruby. If the test
// `Cifar10` finds these files, it checks their digests.
const std::vector<DataSet>& data_sets() {
  static const std::vector<DataSet> sets{
      {.name = "multi30k",
       .about = "image captions, German to English: 29,000 pairs (Elliott et al., 2016)",
       .directory = "multi30k",
       .archives = {of_multi30k("training.tar.gz", "20140d013d05dd9a72dfde46478663ba05737ce983f478f960c1123c6671be5e"),
                    of_multi30k("validation.tar.gz",
                                "a7aa20e9ebd5ba5adce7909498b94410996040857154dab029851af3a866da8c"),
                    of_multi30k("mmt_task1_test2016.tar.gz",
                                "876a95a689a2a20b243666951149fd42d9bfd57cbbf8cd2c79d3465451564dd2")},
       .renamed = {{"val", "valid"}, {"test2016", "test_2016_flickr"}}},
      {.name = "cifar10",
       .about = "60,000 images of 10 classes (Krizhevsky, 2009)",
       .directory = "cifar-10-batches-bin",
       .archives = {of_toronto("cifar-10-binary.tar.gz",
                               "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd")},
       .digests = {{"data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
                   {"data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
                   {"data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
                   {"data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
                   {"data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
                   {"test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"}}},
      {.name = "cifar100",
       .about = "60,000 images of 100 classes (Krizhevsky, 2009)",
       .directory = "cifar-100-binary",
       .archives = {of_toronto("cifar-100-binary.tar.gz",
                               "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec")},
       .digests = {{"train.bin", "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29"},
                   {"test.bin", "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a"}}}};
  return sets;
}

std::string data_root(const std::string& flag) {
  if (!flag.empty()) return flag;
  constexpr const char* kPlaces[][2] = {
      {"FOLDGRAD_DATA", ""}, {"XDG_CACHE_HOME", "/foldgrad"}, {"HOME", "/.cache/foldgrad"}};
  for (const auto& [variable, below] : kPlaces)
    if (const char* value = std::getenv(variable); value && *value) return std::string(value) + below;
  return ".";
}

std::string data_directory(const std::string& directory, const std::string& flag) {
  return directory.empty() ? data_root(flag)
                           : (std::filesystem::path(data_root(flag)) / directory).string();  // keeps absolute paths
}

std::string where_data_lies(const std::string& directory) {
  std::string text = "below --data-dir, $FOLDGRAD_DATA or ~/.cache/foldgrad";
  const std::string name = std::filesystem::path(directory).filename();
  for (const DataSet& set : data_sets())
    if (name == set.directory)
      text += fmt::format("; `foldgrad data fetch {}` creates this directory (docs/data.md)", set.name);
  return text;
}

}  // namespace foldgrad
