// SHA-256 digests, as 64 hexadecimal digits, and base64 (RFC 4648). Unlike CRC-32, SHA-256 can be checked with
// sha256sum and against published digests.
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
