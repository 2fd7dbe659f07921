// A library for LD_PRELOAD that times each kernel, matrix product, copy and fill of a program that uses one stream. The
// GPU time is measured between two events around the launch; the host time is that of the call. When the program ends,
// the library writes a table to the file that LAUNCH_TIMES names. A line has the name, the number of launches, and the
// median times on the GPU and on the host in microseconds. The first line is for two events with nothing between them;
// every other GPU time includes this time.
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

struct Launch {
  std::string name;
  cudaEvent_t begin, end;
  double host;  // microseconds
};

struct Launches {
  std::mutex mutex;
  std::vector<Launch> all;
};
Launches& launches() {
  static auto* kept = new Launches;  // never destroyed, since write_table() runs while the program ends
  return *kept;
}

cudaEvent_t record(cudaStream_t stream) {
  cudaEvent_t event = nullptr;
  cudaEventCreate(&event);
  cudaEventRecord(event, stream);
  return event;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void write_table() {
  const char* const path = std::getenv("LAUNCH_TIMES");
  FILE* const file = path ? std::fopen(path, "w") : nullptr;
  if (!file) return (void)std::fprintf(stderr, "launch_times: LAUNCH_TIMES must name a writable file\n");
  cudaDeviceSynchronize();
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> by_name;
  for (const Launch& launch : launches().all) {
    float milliseconds = 0;
    if (cudaEventElapsedTime(&milliseconds, launch.begin, launch.end) != cudaSuccess) continue;
    by_name[launch.name].first.push_back(milliseconds * 1e3);
    by_name[launch.name].second.push_back(launch.host);
  }
  for (const auto& [name, times] : by_name)
    std::fprintf(file, "%s\t%zu\t%.2f\t%.2f\n", name.c_str(), times.first.size(), median(times.first),
                 median(times.second));
  std::fclose(file);
}

template <class Call>
auto timed(const std::string& name, cudaStream_t stream, const Call& call) {
  const std::lock_guard lock(launches().mutex);
  if (launches().all.empty()) {
    std::atexit(write_table);  // registered after the driver's handler, so it runs before the driver is gone
    for (int i = 0; i < 100; ++i) {
      const cudaEvent_t begin = record(stream);
      launches().all.push_back({" nothing", begin, record(stream), 0});
    }
  }
  const cudaEvent_t begin = record(stream);
  const Clock::time_point start = Clock::now();
  const auto result = call();
  const double host = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  launches().all.push_back({name, begin, record(stream), host});
  return result;
}

std::string name_of(const void* kernel) {
  const char* mangled = nullptr;
  if (cudaFuncGetName(&mangled, kernel) != cudaSuccess || !mangled) return "?";
  char* const readable = abi::__cxa_demangle(mangled, nullptr, nullptr, nullptr);
  const std::string name = readable ? readable : mangled;
  std::free(readable);
  return name;
}

std::uint64_t size(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute) {
  std::uint64_t value = 0;
  cublasLtMatrixLayoutGetAttribute(layout, attribute, &value, sizeof value, nullptr);
  return value;
}

}  // namespace

extern "C" {

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments) {
  static auto* const real = next<decltype(cudaLaunchKernelExC)>("cudaLaunchKernelExC");
  return timed(name_of(kernel), config->stream, [&] { return real(config, kernel, arguments); });
}

cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  static auto* const real = next<decltype(cudaMemcpyAsync)>("cudaMemcpyAsync");
  return timed("copy", stream, [&] { return real(target, source, bytes, kind, stream); });
}

cudaError_t cudaMemsetAsync(void* target, int value, size_t bytes, cudaStream_t stream) {
  static auto* const real = next<decltype(cudaMemsetAsync)>("cudaMemsetAsync");
  return timed("fill", stream, [&] { return real(target, value, bytes, stream); });
}

// The name has the sizes of D, A and B, as stored and in the library's order of rows and columns.
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t bytes,
                              cudaStream_t stream) {
  static auto* const real = next<decltype(cublasLtMatmul)>("cublasLtMatmul");
  std::string name = "product";
  for (cublasLtMatrixLayout_t layout : {d_layout, a_layout, b_layout})
    name += " " + std::to_string(size(layout, CUBLASLT_MATRIX_LAYOUT_ROWS)) + "x" +
            std::to_string(size(layout, CUBLASLT_MATRIX_LAYOUT_COLS));
  return timed(name, stream, [&] {
    return real(handle, description, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algorithm,
                workspace, bytes, stream);
  });
}
}
