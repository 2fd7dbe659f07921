# Every option, its default and its allowed values. A wrong value or an unknown FOLDGRAD_ name stops the configuration.

function(foldgrad_option name default help)  # allowed values follow; none: any value
  set(${name} "${default}" CACHE STRING "${help}")
  set_property(GLOBAL APPEND PROPERTY foldgrad_options ${name})
  if(ARGN)
    set_property(CACHE ${name} PROPERTY STRINGS ${ARGN})
    if(NOT "${${name}}" IN_LIST ARGN)
      list(JOIN ARGN ", " allowed)
      string(REGEX REPLACE "^, " "(empty), " allowed "${allowed}")
      message(FATAL_ERROR "${name} must be one of: ${allowed}; got \"${${name}}\"")
    endif()
  endif()
endfunction()

function(foldgrad_refuse_unknown_options)
  get_property(known GLOBAL PROPERTY foldgrad_options)
  get_cmake_property(cached CACHE_VARIABLES)
  list(FILTER cached INCLUDE REGEX "^FOLDGRAD_")
  list(REMOVE_ITEM cached ${known})
  if(cached)
    foreach(name ${cached})
      unset(${name} CACHE)  # otherwise the next run would stumble over it again
    endforeach()
    list(JOIN cached ", " cached)
    list(JOIN known ", " known)
    message(FATAL_ERROR "There is no option ${cached}. The options are: ${known}")
  endif()
endfunction()

foldgrad_option(FOLDGRAD_CUDA AUTO "CUDA kernels: with nvcc (ON), as C++ on the host (EMULATE), not at all (OFF)"
                AUTO ON EMULATE OFF)
foldgrad_option(FOLDGRAD_CUBLAS AUTO "cuBLAS for matrix products on the GPU" AUTO ON OFF)
foldgrad_option(FOLDGRAD_CUDNN AUTO "cuDNN for convolutions on the GPU" AUTO ON OFF)
foldgrad_option(FOLDGRAD_ONEDNN AUTO "oneDNN for f32 and bf16 matrix products on the CPU" AUTO ON OFF)
foldgrad_option(FOLDGRAD_CBLAS AUTO "OpenBLAS for f64 matrix products on the CPU" AUTO ON OFF)
foldgrad_option(FOLDGRAD_SENTENCEPIECE AUTO "SentencePiece, to cut text into pieces" AUTO ON OFF)
foldgrad_option(FOLDGRAD_CURL AUTO "libcurl, to fetch data" AUTO ON OFF)
foldgrad_option(FOLDGRAD_ONNX AUTO "protobuf and onnx.proto, to write ONNX" AUTO ON OFF)
foldgrad_option(FOLDGRAD_CHART_JS AUTO "Chart.js, for the curves in reports" AUTO ON OFF)
foldgrad_option(FOLDGRAD_CPU AUTO "Instruction set; AUTO: the highest x86-64 level that this CPU runs"
                AUTO x86-64 x86-64-v2 x86-64-v3 x86-64-v4 native)
foldgrad_option(FOLDGRAD_SANITIZE "" "Sanitizers" "" address,undefined thread)
foldgrad_option(FOLDGRAD_WERROR OFF "Warnings are errors" ON OFF)
foldgrad_option(FOLDGRAD_TESTS ON "Build the tests" ON OFF)
foldgrad_option(FOLDGRAD_PRECOMPILE OFF "Compile common headers once, and commands several at a time" ON OFF)
foldgrad_option(FOLDGRAD_BENCH AUTO "Build the benchmarks" AUTO ON OFF)
foldgrad_refuse_unknown_options()

# One row of the table that ends the configuration: what, its state, why, and the package that turns it on.
function(foldgrad_feature what state why package)
  set_property(GLOBAL APPEND PROPERTY foldgrad_features "${what}|${state}|${why}|${package}")
endfunction()
