// Run at configure time: prints the highest x86-64 microarchitecture level that this CPU and its system support.
#include <cstdio>

#define HAS(feature) (__builtin_cpu_supports(feature) != 0)

int main() {
  __builtin_cpu_init();
  const bool v2 = HAS("ssse3") && HAS("sse4.2") && HAS("popcnt");
  const bool v3 = v2 && HAS("avx2") && HAS("bmi") && HAS("bmi2") && HAS("fma");
  const bool v4 = v3 && HAS("avx512f") && HAS("avx512bw") && HAS("avx512cd") && HAS("avx512dq") && HAS("avx512vl");
  std::printf("%d", v4 ? 4 : v3 ? 3 : v2 ? 2 : 1);
}
