// Bytes as text: SHA-256, as 64 hexadecimal digits, and base64 (RFC 4648). One digest for checkpoints, downloads and
// certificates: people can compare it with what sha256sum prints and data sets publish, which a checksum such as CRC-32
// does not allow.
#pragma once
#include <string>
#include <string_view>

namespace foldgrad {

std::string sha256(std::string_view bytes);
std::string sha256_of_file(const std::string& path);  // throws FileError
// Throws FileError unless the file has this SHA-256.
void require_digest(const std::string& path, const std::string& sha256);

std::string base64(std::string_view bytes);

}  // namespace foldgrad
