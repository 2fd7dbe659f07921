#include <fmt/format.h>
#include <omp.h>
#include <openssl/crypto.h>
#ifdef FOLDGRAD_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif
#ifdef FOLDGRAD_HAVE_CBLAS
#include <cblas.h>
#endif

#include "engine/cpu/support.h"
#include "engine/device.h"
#include "train/runs/directory.h"

namespace foldgrad {
namespace {

std::string dotted(int version, int major, int minor) {
  return fmt::format("{}.{}.{}", version / major, version % major / minor, version % minor);
}

}  // namespace

nlohmann::ordered_json describe_environment(const BuildInfo& build, std::int64_t seed,
                                            const std::map<std::string, std::string>& data_digests) {
  nlohmann::ordered_json e{{"version", build.version},
                           {"commit", build.commit},
                           {"compiler", build.compiler},
                           {"flags", build.flags},
                           {"instructions", cpu_level()},
                           {"cpu", cpu_model()},
                           {"threads", omp_get_max_threads()},
                           {"cuda", cuda_description()},
                           {"seed", seed}};
  auto& libraries = e["libraries"];
  libraries["fmt"] = dotted(FMT_VERSION, 10000, 100);
  libraries["nlohmann_json"] =
      fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH);
  libraries["openssl"] = OpenSSL_version(OPENSSL_VERSION);
#ifdef FOLDGRAD_HAVE_ONEDNN
  const dnnl_version_t* dnnl = dnnl_version();
  libraries["onednn"] = fmt::format("{}.{}.{}", dnnl->major, dnnl->minor, dnnl->patch);
#endif
#ifdef FOLDGRAD_HAVE_CBLAS
  libraries["openblas"] = openblas_get_config();
#endif
  e["data"] = data_digests;
  return e;
}

}  // namespace foldgrad
