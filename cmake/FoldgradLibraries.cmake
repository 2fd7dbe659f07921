# Finds libraries. Required ones that are missing are named together in one error; optional ones set
# foldgrad_have_onednn, _cblas, _cublas, _cudnn, _sentencepiece, _mpi, _zmq, _nccl, _libpng, _turbojpeg,
# _chart_js, _bench.

include(CheckCXXSourceCompiles)
include(CheckCXXSourceRuns)

set(missing "")
macro(foldgrad_require target package)  # further arguments are those of find_package
  find_package(${ARGN} QUIET)
  if(NOT TARGET ${target})
    list(APPEND missing ${package})
  endif()
endmacro()

# Looks for a library that has no package file, if FOLDGRAD_NAME allows it: sets `found` and `why`, and the paths
# foldgrad_NAME and foldgrad_NAME_include. Further arguments are those of find_library and find_path.
macro(foldgrad_find name library header)
  string(TOLOWER foldgrad_${name} variable)
  set(found OFF)
  set(why "not found")
  if(NOT FOLDGRAD_${name} STREQUAL OFF)
    find_library(${variable} ${library} ${ARGN})
    find_path(${variable}_include ${header} ${ARGN})
    mark_as_advanced(${variable} ${variable}_include)
    if(${variable} AND ${variable}_include)
      set(found ON)
      set(why "${${variable}}")
    endif()
  endif()
endmacro()

# Looks for another file of the same library, by find_KIND().
macro(foldgrad_find_also kind variable file)
  if(found)
    cmake_language(CALL find_${kind} ${variable} ${file})
    mark_as_advanced(${variable})
    if(NOT ${variable})
      set(found OFF)
      set(why "not found")
    endif()
  endif()
endmacro()

macro(foldgrad_find_for_cuda name library header)
  if(foldgrad_cuda STREQUAL ON)
    foldgrad_find(${name} ${library} ${header} HINTS ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_LIBRARY_DIR})
  else()
    set(found OFF)
    set(why "needs FOLDGRAD_CUDA=ON")
  endif()
endmacro()

# Drops a matrix product library that was found, unless check_cxx_source_KIND() accepts the code; `otherwise` is the
# reason to print. PROPERTY names the result in the cache.
function(foldgrad_check name property kind otherwise code)
  if(NOT found)
    if(why STREQUAL "not found")
      set(why "not found; own kernel instead, slow" PARENT_SCOPE)
    endif()
    return()
  endif()
  set(CMAKE_REQUIRED_INCLUDES ${foldgrad_${name}_include} ${PROJECT_SOURCE_DIR})
  set(CMAKE_REQUIRED_LIBRARIES ${foldgrad_${name}})
  set(CMAKE_REQUIRED_QUIET ON)
  cmake_language(CALL check_cxx_source_${kind} "${code}" foldgrad_${name}_${property})
  if(NOT foldgrad_${name}_${property})
    set(found OFF PARENT_SCOPE)
    set(why "${why} ${otherwise}" PARENT_SCOPE)
  endif()
endfunction()

# A library with its own threads would start a second pool, and the two would fight for the cores.
set(not_openmp "does not use OpenMP, its threads would compete with ours")

# Drops a found cuDNN if it is older than 9.8, which cannot make plans from the properties of a device.
function(foldgrad_check_cudnn)
  set(header ${foldgrad_cudnn_include}/cudnn_version.h)
  if(NOT found OR NOT EXISTS ${header})
    return()
  endif()
  file(STRINGS ${header} version REGEX "define CUDNN_(MAJOR|MINOR) ")
  list(TRANSFORM version REPLACE "[^0-9]" "")
  list(JOIN version . version)
  if(version VERSION_LESS 9.8)
    set(found OFF PARENT_SCOPE)
    set(why "${why} is of cuDNN ${version}, which is older than 9.8" PARENT_SCOPE)
  endif()
endfunction()

# Sets foldgrad_have_NAME to `found`, a boolean, unless FOLDGRAD_NAME is OFF. `why` says how it was found or why not.
macro(foldgrad_optional name what package)
  string(TOLOWER foldgrad_have_${name} have)
  set(${have} OFF)
  if(FOLDGRAD_${name} STREQUAL OFF)
    foldgrad_feature("${what}" OFF "FOLDGRAD_${name}=OFF" "${package}")
  elseif(found)
    set(${have} ON)
    foldgrad_feature("${what}" ON "${why}" "${package}")
  elseif(FOLDGRAD_${name} STREQUAL ON)
    message(FATAL_ERROR "FOLDGRAD_${name}=ON, but: ${why}. It comes with: ${package}")
  else()
    foldgrad_feature("${what}" OFF "${why}" "${package}")
  endif()
endmacro()

foldgrad_require(fmt::fmt libfmt-dev fmt)
foldgrad_require(nlohmann_json::nlohmann_json nlohmann-json3-dev nlohmann_json)
foldgrad_require(CLI11::CLI11 libcli11-dev CLI11)
foldgrad_require(tomlplusplus::tomlplusplus libtomlplusplus-dev tomlplusplus)
foldgrad_require(OpenSSL::Crypto libssl-dev OpenSSL)
foldgrad_require(Threads::Threads libc6-dev Threads)
if(FOLDGRAD_TESTS)
  foldgrad_require(GTest::gtest libgtest-dev GTest)
  foldgrad_require(rapidcheck librapidcheck-dev rapidcheck)
endif()
if(missing)
  list(JOIN missing " " missing)
  message(FATAL_ERROR "Libraries are missing. On Debian: scripts/setup.sh, or apt-get install ${missing}. "
                      "If they are elsewhere, name the place in CMAKE_PREFIX_PATH.")
endif()

# Debian keeps one of OpenSSL's headers in a folder per architecture, which the compiler searches only below /usr.
find_path(foldgrad_openssl_include openssl/opensslconf.h)
mark_as_advanced(foldgrad_openssl_include)
if(foldgrad_openssl_include)
  target_include_directories(OpenSSL::Crypto SYSTEM INTERFACE ${foldgrad_openssl_include})
endif()

# We do not use oneDNN's package file: Debian's demands OpenCL, which only the GPU part needs.
foldgrad_find(ONEDNN dnnl oneapi/dnnl/dnnl.hpp)
foldgrad_check(onednn uses_openmp compiles "${not_openmp}" "
  #include <oneapi/dnnl/dnnl_config.h>
  static_assert(DNNL_CPU_RUNTIME == DNNL_RUNTIME_OMP);
  int main() {}")
foldgrad_check(onednn is_known compiles "has neither the interface of oneDNN 2.6 nor that of 3" "
  #include \"engine/gemm/onednn_versions.h\"
  dnnl::engine& foldgrad::onednn_engine() {
    static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
    return cpu;
  }
  int main() {
    const dnnl::memory::desc square({2, 2}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab);
    return !foldgrad::choose_implementation<dnnl::matmul>({}, {}, std::tie(square, square, square));
  }")
foldgrad_optional(ONEDNN "oneDNN" libdnnl-dev)

# OpenBLAS has three flavours; only the one with OpenMP is used.
foldgrad_find(CBLAS openblas cblas.h PATH_SUFFIXES openblas-openmp)
foldgrad_check(cblas uses_openmp runs "${not_openmp}" "
  #include <cblas.h>
  int main() { return openblas_get_parallel() == OPENBLAS_OPENMP ? 0 : 1; }")
foldgrad_optional(CBLAS "OpenBLAS" libopenblas-openmp-dev)

# Both ask OpenMP for the number of threads, which engine/gemm/one_thread.h keeps at 1. Nothing else uses OpenMP.
if(foldgrad_have_onednn OR foldgrad_have_cblas)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()

set(found OFF)
set(why "needs FOLDGRAD_CUDA=ON")
if(TARGET CUDA::cublasLt)
  set(found ON)
  set(why "${CUDAToolkit_LIBRARY_DIR}")
elseif(foldgrad_cuda STREQUAL ON)
  set(why "not found; own tiled kernel instead")
endif()
foldgrad_optional(CUBLAS "cuBLAS" "CUDA toolkit")
foldgrad_find_for_cuda(CUDNN cudnn cudnn.h)
foldgrad_check_cudnn()
foldgrad_optional(CUDNN "cuDNN" "cuDNN (nvidia.com)")

foldgrad_find(SENTENCEPIECE sentencepiece sentencepiece_trainer.h)
foldgrad_find_also(library foldgrad_sentencepiece_train sentencepiece_train)
set(foldgrad_sentencepiece ${foldgrad_sentencepiece_train} ${foldgrad_sentencepiece})
foldgrad_optional(SENTENCEPIECE "SentencePiece" libsentencepiece-dev)

set(found OFF)
set(why "not found, so one process only")
if(NOT FOLDGRAD_MPI STREQUAL OFF)
  set(MPI_CXX_SKIP_MPICXX ON)  # the old C++ interface is not used
  find_package(MPI QUIET COMPONENTS CXX)
  if(TARGET MPI::MPI_CXX)
    set(found ON)
    list(GET MPI_CXX_LIBRARIES -1 why)
  endif()
endif()
foldgrad_optional(MPI "MPI" "libopenmpi-dev openmpi-bin")
foldgrad_find_for_cuda(NCCL nccl nccl.h)
if(why STREQUAL "not found")
  string(APPEND why ", so sums over processes go through the host")
endif()
foldgrad_optional(NCCL "NCCL" "NCCL (nvidia.com)")
foldgrad_find(ZMQ zmq zmq.h)
foldgrad_optional(ZMQ "ZeroMQ" libzmq3-dev)

foldgrad_find(LIBPNG png png.h)
foldgrad_optional(LIBPNG "PNG" libpng-dev)
foldgrad_find(TURBOJPEG turbojpeg turbojpeg.h)
foldgrad_optional(TURBOJPEG "JPEG" libturbojpeg0-dev)

set(found OFF)
set(why "not found; reports have tables only")
if(NOT FOLDGRAD_CHART_JS STREQUAL OFF)
  find_file(foldgrad_chart_js chart.min.js PATHS /usr/share/javascript/chart.js)
  mark_as_advanced(foldgrad_chart_js)
  if(foldgrad_chart_js)
    set(found ON)
    set(why "${foldgrad_chart_js}")
  endif()
endif()
foldgrad_optional(CHART_JS "Chart.js" libjs-chart.js)

set(found OFF)
set(why "Google Benchmark was not found")
if(NOT FOLDGRAD_BENCH STREQUAL OFF)
  find_package(benchmark QUIET)
  if(TARGET benchmark::benchmark)
    set(found ON)
    set(why "Google Benchmark ${benchmark_VERSION}")
  endif()
endif()
foldgrad_optional(BENCH "Benchmarks" libbenchmark-dev)
foldgrad_feature("Tests" ${FOLDGRAD_TESTS} "FOLDGRAD_TESTS" "libgtest-dev librapidcheck-dev")
