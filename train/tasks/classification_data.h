// The images that a configuration names, and which of them are for what.
#pragma once
#include <map>

#include "train/config/config.h"
#include "train/data/images/set.h"

namespace foldgrad {

struct ClassificationData {
  ImageSet train, valid;
  std::vector<std::int64_t> train_rows, valid_rows;  // the images of either that are used
  bool valid_is_test = false;
  std::map<std::string, std::string> digests = {};  // SHA-256 of the files, by name
};

// Where data.valid_images says so, images to validate on are held out from those to train on, or drawn besides where
// images are drawn. Throws FileError, ConfigError and std::invalid_argument.
ClassificationData read_images(const ImageConfig& config, const std::string& directory);

// Those of one split, "train", "valid" or "test". Throws std::invalid_argument for any other name, and for "valid"
// where there is none but the test images.
struct ImageSplit {
  ImageSet images;
  std::vector<std::int64_t> rows;
};
ImageSplit read_split(const ImageConfig& config, const std::string& directory, const std::string& split);

}  // namespace foldgrad
