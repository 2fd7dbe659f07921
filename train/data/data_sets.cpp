#include "train/data/data_sets.h"

namespace foldgrad {
namespace {

std::vector<std::string> mirrors(const std::string& file) {
  return {"https://raw.githubusercontent.com/neychev/small_DL_repo/master/datasets/Multi30k/" + file,
          "http://www.quest.dcs.shef.ac.uk/wmt16_files_mmt/" + file};
}

Download archive(const std::string& file, const std::string& sha256) { return {mirrors(file), sha256, file}; }

}  // namespace

const std::vector<DataSet>& data_sets() {
  // Mirrors and digests: those of torchtext 0.18 and of its issue 1756.
  static const std::vector<DataSet> sets{
      {"multi30k",
       "captions of images, German to English: 29,000 pairs (Elliott et al., 2016)",
       {archive("training.tar.gz", "20140d013d05dd9a72dfde46478663ba05737ce983f478f960c1123c6671be5e"),
        archive("validation.tar.gz", "a7aa20e9ebd5ba5adce7909498b94410996040857154dab029851af3a866da8c"),
        archive("mmt_task1_test2016.tar.gz", "876a95a689a2a20b243666951149fd42d9bfd57cbbf8cd2c79d3465451564dd2")},
       {{"val", "valid"}, {"test2016", "test_2016_flickr"}}}};
  return sets;
}

}  // namespace foldgrad
