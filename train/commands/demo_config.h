// configs/numbers.toml, which the build puts into the program.
#pragma once

namespace foldgrad {

extern const char* const kDemoConfig;

}  // namespace foldgrad
