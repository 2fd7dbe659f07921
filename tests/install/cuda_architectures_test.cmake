# cmake -DSOURCE=... -P cuda_architectures_test.cmake: which CUDA architectures the build accepts, and what it says of
# those that it does not.
cmake_minimum_required(VERSION 3.25)

# Returns the message of configuring in one line; "" where it accepts the architectures. More arguments are handed on.
function(said architectures out)
  execute_process(COMMAND ${CMAKE_COMMAND} "-DCMAKE_CUDA_ARCHITECTURES=${architectures}" ${ARGN}
                          -P ${SOURCE}/cmake/check_cuda_architectures.cmake
                  RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE text)
  string(REGEX REPLACE "[ \n]+" " " text "${text}")
  if(status EQUAL 0 AND text STREQUAL "")
    set(text "")
  elseif(status EQUAL 0)
    message(SEND_ERROR "${architectures}: accepted, and yet it says: ${text}")
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

foreach(accepted "80" "80;90" "90a" "80-real;90-virtual" "86" "120f" "OFF" "native" "")
  said("${accepted}" text)
  if(NOT text STREQUAL "")
    message(SEND_ERROR "${accepted}: expected to be accepted, got: ${text}")
  endif()
endforeach()
said("native" text "-DCMAKE_CUDA_ARCHITECTURES_NATIVE=90-real")
if(NOT text STREQUAL "")
  message(SEND_ERROR "native, 90 on this machine: expected to be accepted, got: ${text}")
endif()

expect_refused("75" "75")
expect_refused("79" "79")
expect_refused("90;75" "75")
expect_refused("52-virtual;75-real;80" "52-virtual, 75-real")
expect_refused("all" "all (with every one that nvcc knows)")
expect_refused("all-major" "all-major (with every one that nvcc knows)")
expect_refused("native" "native (75-real on this machine)" "-DCMAKE_CUDA_ARCHITECTURES_NATIVE=75-real")
