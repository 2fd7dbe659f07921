#include "engine/parallel/alike.h"

#include <fmt/core.h>

#include "engine/check.h"

namespace foldgrad {
namespace {

// Returns the first line of `text` that differs from that of `other`.
std::string different_line(const std::string& text, const std::string& other) {
  const auto [here, there] = std::ranges::mismatch(text, other);
  const std::size_t at = std::size_t(here - text.begin());
  const std::size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;  // npos + 1 = 0
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

void require_alike(Communicator& communicator, const NamedTexts& texts) {
  for (const auto& [what, text] : texts) {
    const std::string first = communicator.first_text(communicator.rank() == 0 ? text : "");
    std::string difference;
    if (text != first)
      difference = fmt::format("parallel: all ranks must have the same {}: rank {} has \"{}\", rank 0 \"{}\"", what,
                               communicator.rank(), different_line(text, first), different_line(first, text));
    const std::string found = communicator.first_text(difference);
    FOLDGRAD_CHECK(found.empty(), "{}", found);
  }
}

}  // namespace foldgrad
