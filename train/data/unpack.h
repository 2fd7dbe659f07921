// Archives *.tar.gz, by the program tar.
#pragma once
#include <string>

namespace foldgrad {

// Into a directory, which is made. Throws FileError when tar is absent or refuses.
void unpack(const std::string& archive, const std::string& directory);

}  // namespace foldgrad
