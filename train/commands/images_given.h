// Images that are arguments of a command.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace foldgrad {

struct GivenImage {
  std::string name, label;           // FILE, or FILE:RECORD with the name of its class
  std::vector<std::uint8_t> pixels;  // [size, size, 3]
};

// Calls take() for each image that `argument` names, in order: the picture of a PNG or JPEG file, all records of a
// FILE.bin, or one of them, FILE.bin:RECORD. Pictures of another size are cut and scaled by square(). Throws FileError.
void for_each_image(const std::string& argument, std::int64_t size, const std::vector<std::string>& classes,
                    const std::function<void(GivenImage)>& take);

}  // namespace foldgrad
