# Refuses architectures for which the kernels cannot be compiled. Also runs separately, as in its test: cmake
# -DCMAKE_CUDA_ARCHITECTURES="75;90" -P cmake/check_cuda_architectures.cmake
set(too_old "")
foreach(architecture IN LISTS CMAKE_CUDA_ARCHITECTURES)
  string(REGEX MATCH "^[0-9]+" number "${architecture}")
  if(number AND number LESS 80)
    list(APPEND too_old ${architecture})
  elseif(architecture MATCHES "^all(-major)?$")
    list(APPEND too_old "${architecture} (with every one that nvcc knows)")
  elseif(architecture STREQUAL native)
    foreach(here IN LISTS CMAKE_CUDA_ARCHITECTURES_NATIVE)
      string(REGEX MATCH "^[0-9]+" number "${here}")
      if(number LESS 80)
        list(APPEND too_old "native (${here} on this machine)")
      endif()
    endforeach()
  endif()
endforeach()
if(too_old)
  list(JOIN too_old ", " too_old)
  message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES must be 80 or newer: the kernels multiply bf16 by tensor cores, which "
                      "GPUs do from compute capability 8.0 (Ampere) on. Got ${too_old}. Name newer ones, such as "
                      "-DCMAKE_CUDA_ARCHITECTURES='80;90', or use -DFOLDGRAD_CUDA=EMULATE (kernels run on the host, "
                      "for tests) or -DFOLDGRAD_CUDA=OFF.")
endif()
