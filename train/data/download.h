// Files from the network, whole or not at all.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace foldgrad {

struct Download {
  std::vector<std::string> urls;  // mirrors of one file, tried in order
  std::string sha256;             // of the file
  std::string path;               // where it goes
};

bool download_available();  // this build has libcurl

// Bytes gather in PATH.part, which a later call goes on with; with the right digest it becomes PATH. A file that has
// the digest already is left alone. Throws FileError, which names every URL with its failure, the digest and the path.
void download(const Download& wanted);

// The same with a file that somebody has fetched otherwise: copied, not moved.
void take_file(const std::string& file, const Download& wanted);

// Appends to the file `part` what it lacks of `url`. Gives the reason when that fails, otherwise "".
std::string transfer(const std::string& url, const std::string& part);

}  // namespace foldgrad
