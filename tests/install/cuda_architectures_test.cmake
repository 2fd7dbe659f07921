# Tests which CUDA architectures the build accepts, and its messages about the others:
#   cmake -DSOURCE=... -P cuda_architectures_test.cmake
cmake_minimum_required(VERSION 3.25)

# Configures for these architectures, with any further arguments of this function. Sets `out` to the error message, in
# one line, or to "" if cmake accepts the architectures.
function(said architectures out)
  execute_process(COMMAND ${CMAKE_COMMAND} "-DCMAKE_CUDA_ARCHITECTURES=${architectures}" ${ARGN}
                          -P ${SOURCE}/cmake/check_cuda_architectures.cmake
                  RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE text)
  string(REGEX REPLACE "[ \n]+" " " text "${text}")
  if(status EQUAL 0 AND NOT text STREQUAL "")
    message(SEND_ERROR "${architectures}: accepted, but with the message: ${text}")
  endif()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

function(expect_refused architectures named)
  said("${architectures}" text ${ARGN})
  foreach(part "CMAKE_CUDA_ARCHITECTURES must be 80 or newer" "bf16" "compute capability 8.0" "Got ${named}. "
               "-DCMAKE_CUDA_ARCHITECTURES='80;90'" "-DFOLDGRAD_CUDA=EMULATE" "-DFOLDGRAD_CUDA=OFF")
    string(FIND "${text}" "${part}" at)
    if(at EQUAL -1)
      message(SEND_ERROR "${architectures}: expected a refusal with \"${part}\", got: ${text}")
    endif()
  endforeach()
endfunction()

function(expect_accepted architectures)
  said("${architectures}" text ${ARGN})
  if(NOT text STREQUAL "")
    message(SEND_ERROR "${architectures}: expected to be accepted, got: ${text}")
  endif()
endfunction()

foreach(accepted "80" "80;90" "90a" "80-real;90-virtual" "86" "120f" "OFF" "native" "")
  expect_accepted("${accepted}")
endforeach()
expect_accepted("native" "-DCMAKE_CUDA_ARCHITECTURES_NATIVE=90-real")
expect_refused("75" "75")
expect_refused("79" "79")
expect_refused("90;75" "75")
expect_refused("52-virtual;75-real;80" "52-virtual, 75-real")
expect_refused("all" "all (with every one that nvcc knows)")
expect_refused("all-major" "all-major (with every one that nvcc knows)")
expect_refused("native" "native (75-real on this machine)" "-DCMAKE_CUDA_ARCHITECTURES_NATIVE=75-real")
