#include "train/system/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

#include "engine/files/file.h"

namespace foldgrad {
namespace {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    check(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
  }
  void add(const void* data, std::size_t bytes) { check(EVP_DigestUpdate(context_.get(), data, bytes)); }
  std::string digits() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    check(EVP_DigestFinal_ex(context_.get(), digest, &size));
    return fmt::format("{:02x}", fmt::join(digest, digest + size, ""));
  }

 private:
  static void check(bool done) {
    if (!done) throw std::runtime_error("sha256: OpenSSL's libcrypto failed");
  }
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

}  // namespace

std::string sha256(std::string_view bytes) {
  Sha256 digest;
  digest.add(bytes.data(), bytes.size());
  return digest.digits();
}

std::string sha256_of_file(const std::string& path) {
  const InputFile file(path);
  Sha256 digest;
  std::vector<char> block(1 << 20);
  for (std::uint64_t at = 0; at < file.size();) {
    const std::size_t bytes = std::min<std::uint64_t>(block.size(), file.size() - at);
    file.read(at, block.data(), bytes);
    digest.add(block.data(), bytes);
    at += bytes;
  }
  return digest.digits();
}

void require_digest(const std::string& path, const std::string& sha256) {
  if (const std::string got = sha256_of_file(path); got != sha256)
    throw FileError(path, fmt::format("must have SHA-256 {}, got {}", sha256, got));
}

std::string base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // includes OpenSSL's terminating zero
  const auto* from = reinterpret_cast<const unsigned char*>(bytes.data());
  text.resize(std::size_t(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), from, int(bytes.size()))));
  return text;
}

}  // namespace foldgrad
