// Texts that all ranks must have alike before they begin, so that none computes something else unnoticed.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "engine/parallel/communicator.h"

namespace foldgrad {

// Throws std::invalid_argument unless all ranks have the same texts, each with a name such as "commit". The message has
// the name and the first line that differs.
using NamedTexts = std::vector<std::pair<std::string, std::string>>;
void require_alike(Communicator& communicator, const NamedTexts& texts);

}  // namespace foldgrad
