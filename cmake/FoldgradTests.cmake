# Test programs: one for each folder of tests/, so that headers are compiled and libraries linked once for all its
# files. Each file can also be built separately (`ninja layer_norm_test`; all of them: `ninja single_tests`). A program
# links the tested library and those below, so that the test of an operation compiles nothing above operations.

include(GoogleTest)

set(folders engine ladder ops models train realdata book)
if(foldgrad_cuda STREQUAL EMULATE)
  list(APPEND folders emulation)
endif()
# ThreadSanitizer checks loops on our threads and kernels on fibers, below models/, and the threads that prefetch
# batches and sum gradients, which are compiled below without the rest of train/. The preset `tsan` runs their tests.
if(FOLDGRAD_SANITIZE STREQUAL thread)
  list(REMOVE_ITEM folders models train realdata book)
  foreach(target foldgrad foldgrad_models foldgrad_train foldgrad_training
                 foldgrad_records foldgrad_commands)
    if(TARGET ${target})
      set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
  endforeach()
endif()

# Sanitizers check the libraries. Tests of commands and runs start the program repeatedly on code that other tests
# reach.
set(foldgrad_left_out "^$")
if(FOLDGRAD_SANITIZE)
  list(REMOVE_ITEM folders realdata)
  set(foldgrad_left_out "/tests/train/(commands|runs)/")
endif()

# Tests are compiled often and run briefly: they use -Og, with which GCC takes up to a quarter less time than with -O1.
# The libraries under test are fully optimised.
add_library(foldgrad_test_settings INTERFACE)
target_compile_options(foldgrad_test_settings INTERFACE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<CONFIG:Debug>>>:-Og>)
if(FOLDGRAD_SANITIZE)  # debug lines of tests take a sixth of the compile time; reports keep those of the tested code
  target_compile_options(foldgrad_test_settings INTERFACE -g0)
endif()
if(FOLDGRAD_SANITIZE MATCHES undefined)  # takes half of the compile time and is meant for the tested code
  target_compile_options(foldgrad_test_settings INTERFACE -fno-sanitize=undefined)
endif()
if(FOLDGRAD_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # GCC no longer recognizes warnings from within the standard library, and gives false alarms.
  target_compile_options(foldgrad_test_settings INTERFACE -Wno-array-bounds -Wno-stringop-overflow)
endif()
set(foldgrad_test_root ${PROJECT_SOURCE_DIR})
set(foldgrad_test_build ${PROJECT_BINARY_DIR})
if(FOLDGRAD_RELOCATABLE)  # tests run from the root of the packed tree
  set(foldgrad_test_root .)
  file(RELATIVE_PATH foldgrad_test_build ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
endif()
target_compile_definitions(foldgrad_test_settings INTERFACE FOLDGRAD_SOURCE_DIR="${foldgrad_test_root}")
target_link_libraries(foldgrad_test_settings INTERFACE foldgrad_engine GTest::gtest rapidcheck)

set(foldgrad_test_timeout 300)
if(FOLDGRAD_SANITIZE)
  set(foldgrad_test_timeout 1200)
endif()

if(FOLDGRAD_PRECOMPILE)
  set(CMAKE_POSITION_INDEPENDENT_CODE OFF)  # programs and libraries share a header only when their flags are equal
endif()

# main() of every test program is in the harness.
file(GLOB sources CONFIGURE_DEPENDS tests/harness/*.cpp)
add_library(foldgrad_harness STATIC ${sources})
target_link_libraries(foldgrad_harness PUBLIC foldgrad_test_settings)
target_precompile_headers(foldgrad_harness PRIVATE <gtest/gtest.h> <fmt/core.h>)

# ThreadSanitizer of older compilers cannot place its shadow where newer kernels randomise addresses widely.
if(FOLDGRAD_SANITIZE STREQUAL thread AND EXISTS /proc/sys/vm/mmap_rnd_bits)
  execute_process(COMMAND cat /proc/sys/vm/mmap_rnd_bits OUTPUT_VARIABLE bits ERROR_QUIET)
  execute_process(COMMAND setarch -R true RESULT_VARIABLE setarch_status ERROR_QUIET)
  if(bits GREATER 28 AND setarch_status EQUAL 0)
    set(CMAKE_CROSSCOMPILING_EMULATOR setarch -R)
  endif()
endif()

# The library that a folder of tests/ tests; for other folders, the uppermost one.
function(foldgrad_tested_library library_out folder)
  set(library foldgrad_${folder})
  if(folder STREQUAL emulation)
    set(library foldgrad_engine)
  elseif(folder STREQUAL book)
    set(library foldgrad_models)
  elseif(NOT TARGET ${library})
    list(GET foldgrad_libraries -1 library)
  endif()
  set(${library_out} ${library} PARENT_SCOPE)
endfunction()

function(foldgrad_add_test name library)  # sources follow
  add_executable(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX UNITY_BUILD ${FOLDGRAD_PRECOMPILE})
  target_link_libraries(${name} PRIVATE foldgrad_harness ${library})
  target_precompile_headers(${name} REUSE_FROM foldgrad_harness)
  if(library STREQUAL foldgrad_train)  # these also run the program
    add_dependencies(${name} foldgrad ${preloaded})
    target_compile_definitions(${name} PRIVATE FOLDGRAD_PROGRAM="${foldgrad_test_build}/foldgrad"
                                               FOLDGRAD_PRELOAD="${foldgrad_test_build}/preload")
  endif()
endfunction()

# Under AddressSanitizer a program takes longer to start than most tests to run, so there ctest runs a quarter of a
# program at a time; elsewhere it runs single tests. There models and training use one thread, which takes less time
# than two of each program on two cores: their loops are those of operations, whose tests use two.
function(foldgrad_discover name label)
  set(properties TIMEOUT ${foldgrad_test_timeout})
  if(label)
    list(APPEND properties LABELS ${label})
  endif()
  if(FOLDGRAD_SANITIZE MATCHES address)
    set(threads "")
    if(name MATCHES "^(models|train)_")
      set(threads ";OMP_NUM_THREADS=1")
    endif()
    foreach(shard RANGE 3)
      add_test(NAME ${name}_${shard} COMMAND ${name} --gtest_brief=1 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
      set_tests_properties(${name}_${shard} PROPERTIES ${properties}
                           ENVIRONMENT "GTEST_TOTAL_SHARDS=4;GTEST_SHARD_INDEX=${shard}${threads}")
    endforeach()
  else()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES
                         WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} PROPERTIES ${properties})
  endif()
endfunction()

# Returns a test's program name: tests/engine/tape_test.cpp is tape_test, tests/models/fold/graph_test.cpp is
# fold_graph_test.
function(foldgrad_test_name name_out source)
  cmake_path(GET source STEM name)
  cmake_path(GET source PARENT_PATH directory)
  cmake_path(GET directory FILENAME folder)
  cmake_path(GET directory PARENT_PATH above)
  if(NOT above STREQUAL "${PROJECT_SOURCE_DIR}/tests" AND NOT name MATCHES "^${folder}_")
    set(name ${folder}_${name})
  endif()
  set(${name_out} ${name} PARENT_SCOPE)
endfunction()

# Libraries for LD_PRELOAD, which change the program's environment: libNAME.so of tests/preload/NAME.cpp. They are built
# without sanitizers, whose library must be a program's first.
set(foldgrad_preload ${PROJECT_BINARY_DIR}/preload)
set(preloaded "")
file(GLOB sources CONFIGURE_DEPENDS tests/preload/*.cpp)
foreach(source ${sources})
  cmake_path(GET source STEM name)
  add_library(preload_${name} MODULE ${source})
  set_target_properties(preload_${name} PROPERTIES OUTPUT_NAME ${name} POSITION_INDEPENDENT_CODE ON
                        LIBRARY_OUTPUT_DIRECTORY ${foldgrad_preload})
  target_compile_options(preload_${name} PRIVATE -fno-sanitize=all)
  target_link_options(preload_${name} PRIVATE -fno-sanitize=all)
  list(APPEND preloaded preload_${name})
endforeach()

# Programs that ask for a device get the label `gpu` and a line in gpu_tests.txt, which scripts/gpu_kit.sh reads.
set(gpu_tests "")
add_custom_target(single_tests)

foreach(folder ${folders})
  foldgrad_tested_library(library ${folder})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${folder}/*_test.cpp)
  list(FILTER sources EXCLUDE REGEX ${foldgrad_left_out})
  set(programs "")
  foreach(source ${sources})
    cmake_path(GET source PARENT_PATH directory)
    file(RELATIVE_PATH program ${PROJECT_SOURCE_DIR}/tests ${directory})
    string(REPLACE / _ program ${program}_test)
    list(APPEND programs ${program})
    list(APPEND ${program}_sources ${source})
    foldgrad_test_name(name ${source})
    if(NOT name STREQUAL program)
      foldgrad_add_test(${name} ${library} ${source})
      set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON UNITY_BUILD OFF)
      add_dependencies(single_tests ${name})
    endif()
    file(STRINGS ${source} asks REGEX "cuda_available\\(\\)|devices\\(\\)|Device::cuda" LIMIT_COUNT 1)
    if(folder STREQUAL realdata)
      set(${program}_label realdata)
    elseif(asks)
      list(APPEND gpu_tests ${program})
      set(${program}_label gpu)
    endif()
  endforeach()
  list(REMOVE_DUPLICATES programs)
  foreach(program ${programs})
    foldgrad_add_test(${program} ${library} ${${program}_sources})
    if(folder STREQUAL emulation)  # whose tests have the same kernels with different faults
      set_target_properties(${program} PROPERTIES UNITY_BUILD OFF)
    elseif(folder STREQUAL book)  # both files include the program book/tiny.cpp
      set_target_properties(${program} PROPERTIES UNITY_BUILD ON)
    endif()
    foldgrad_discover(${program} "${${program}_label}")
  endforeach()
endforeach()
if(FOLDGRAD_SANITIZE STREQUAL thread)
  foldgrad_add_test(loop_prefetched_test foldgrad_ops tests/train/loop/prefetched_test.cpp)
  foldgrad_discover(loop_prefetched_test "")
  foldgrad_add_test(loop_gradient_sum_test foldgrad_ops tests/train/loop/gradient_sum_test.cpp
                    train/loop/gradient_sum.cpp)
  foldgrad_discover(loop_gradient_sum_test "")
endif()
# Choosing a cuDNN engine needs the library and the properties of a GPU, but no GPU.
foldgrad_find(CUDNN cudnn cudnn.h HINTS /usr/local/cuda PATH_SUFFIXES include lib64)
foldgrad_check_cudnn()
if(found AND NOT FOLDGRAD_SANITIZE)
  foldgrad_add_test(cudnn_plan_test foldgrad_ops tests/cudnn/plan_test.cpp ops/conv2d/plan_cudnn.cpp)
  target_include_directories(cudnn_plan_test SYSTEM PRIVATE ${foldgrad_cudnn_include})
  target_link_libraries(cudnn_plan_test PRIVATE ${foldgrad_cudnn})
  foldgrad_discover(cudnn_plan_test "")
endif()
if(foldgrad_cuda STREQUAL EMULATE AND NOT FOLDGRAD_SANITIZE AND foldgrad_cpu_level GREATER 2)  # these CPUs fuse
  include(FoldgradContracted)
endif()
list(REMOVE_DUPLICATES gpu_tests)
list(JOIN gpu_tests "\n" gpu_tests)
file(WRITE ${PROJECT_BINARY_DIR}/gpu_tests.txt "${gpu_tests}\n")

add_test(NAME cuda_architectures COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}
         -P ${PROJECT_SOURCE_DIR}/tests/install/cuda_architectures_test.cmake)

# Tests in Python, run by the interpreter $FOLDGRAD_PYTHON. They exit with 77, and count as skipped, if it lacks their
# packages.
function(foldgrad_add_python_test name script)  # arguments of the script follow
  set(tests ${PROJECT_SOURCE_DIR}/tests)
  add_test(NAME ${name} COMMAND sh ${tests}/python/run.sh ${tests}/${script} ${ARGN})
  set(environment FOLDGRAD_SOURCE_DIR=${PROJECT_SOURCE_DIR} FOLDGRAD_PROGRAM=$<TARGET_FILE:foldgrad>
                  FOLDGRAD_TINY=$<TARGET_FILE:tiny> FOLDGRAD_COMPILER=${CMAKE_CXX_COMPILER}
                  FOLDGRAD_PACKAGE=${PROJECT_BINARY_DIR}/python FOLDGRAD_OP_BITS=$<TARGET_FILE_DIR:foldgrad>/op_bits)
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${foldgrad_test_timeout}
                                          ENVIRONMENT "${environment}")
endfunction()

if(NOT FOLDGRAD_SANITIZE)
  if(FOLDGRAD_PYTHON)
    add_executable(op_bits tests/python/op_bits.cpp)
    target_link_libraries(op_bits PRIVATE foldgrad_ops)
  endif()
  file(GLOB scripts RELATIVE ${PROJECT_SOURCE_DIR}/tests CONFIGURE_DEPENDS tests/python/*_test.py)
  foreach(script ${scripts})
    cmake_path(GET script STEM name)
    foldgrad_add_python_test(python.${name} ${script})
    set_tests_properties(python.${name} PROPERTIES LABELS python)
  endforeach()
  foldgrad_add_python_test(structure structure/structure_test.py)
  foldgrad_add_python_test(equations structure/equations.py)
  foldgrad_add_python_test(book book/course_test.py)
  foldgrad_add_python_test(readme readme/readme_test.py)

  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_GENERATOR STREQUAL Ninja AND foldgrad_cuda STREQUAL EMULATE)
    add_executable(recordings tests/compilers/recordings.cpp)
    target_link_libraries(recordings PRIVATE foldgrad_models)
    foldgrad_add_python_test(node_order compilers/node_order_test.py ${PROJECT_BINARY_DIR} $<TARGET_FILE:recordings>)
    set_tests_properties(node_order PROPERTIES PROCESSORS 2)
  endif()

  add_test(NAME install COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DBUILD=${PROJECT_BINARY_DIR}
           -DWORK=${PROJECT_BINARY_DIR}/install_test -P ${PROJECT_SOURCE_DIR}/tests/install/install_test.cmake)
  set_tests_properties(install PROPERTIES TIMEOUT ${foldgrad_test_timeout})
  add_test(NAME debian13 COMMAND ${PROJECT_SOURCE_DIR}/tests/install/debian13_test.sh)
  add_test(NAME wheel COMMAND ${PROJECT_SOURCE_DIR}/tests/install/wheel_test.sh)
  set_tests_properties(debian13 wheel PROPERTIES LABELS install SKIP_RETURN_CODE 77 TIMEOUT 7200)
endif()
