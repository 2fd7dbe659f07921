// For the files that use oneDNN.
#pragma once
#include <oneapi/dnnl/dnnl.hpp>

namespace foldgrad {

// The CPU as oneDNN sees it. Every use of oneDNN must begin here: it is told which instructions it may not use.
dnnl::engine& onednn_engine();

}  // namespace foldgrad
