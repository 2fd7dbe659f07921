// Files from the network, whole or not at all, and what archives hold.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace foldgrad {

struct Download {
  std::vector<std::string> urls;                     // mirrors of one file, tried in order
  std::string sha256;                                // of the file
  std::string path;                                  // where it goes
  std::int64_t most_bytes = std::int64_t(10) << 30;  // a server that sends more is given up
};

bool download_available();  // this build has libcurl

// Fetches a file: bytes are appended to PATH.part, which a later call resumes; with the right digest it becomes PATH.
// One that has it is left alone. Throws FileError, which names every URL with its failure, the digest and the path.
void download(const Download& wanted);

// Copies the file, which somebody has fetched otherwise.
void take_file(const std::string& file, const Download& wanted);

// Unpacks *.tar.gz into a directory, which is made. Throws FileError when the program tar is absent or refuses.
void unpack(const std::string& archive, const std::string& directory);

// Appends to the file `part` what it lacks of `url`, up to a size of `most_bytes`. Returns the reason when that fails,
// otherwise "". A server that sends less than 1,000 bytes a second for a minute has failed. A part that no later call
// can resume is removed: an empty one, one that is too long, and one that the server refuses to continue.
std::string transfer(const std::string& url, const std::string& part, std::int64_t most_bytes);

}  // namespace foldgrad
