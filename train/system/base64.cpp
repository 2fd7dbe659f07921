#include "train/system/base64.h"

#include <openssl/evp.h>

namespace foldgrad {

std::string base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // with the zero that OpenSSL ends it with
  const auto* from = reinterpret_cast<const unsigned char*>(bytes.data());
  text.resize(std::size_t(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), from, int(bytes.size()))));
  return text;
}

}  // namespace foldgrad
