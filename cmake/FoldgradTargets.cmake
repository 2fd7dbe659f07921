# Libraries, one per top folder. A source's name decides whether it belongs to a build, and its flags:
#   NAME_LIBRARY.cpp     if this build has LIBRARY (onednn, cudart, libpng ...); a file LIBRARY.cpp likewise
#   NAME_no_LIBRARY.cpp  if it does not
#   fast/NAME.*          unless FOLDGRAD_FAST=OFF (engine/fast.h)
#   NAME_fma.cpp         a * b + c of vector types becomes one instruction, which no function expresses

set(CMAKE_UNITY_BUILD ${FOLDGRAD_PRECOMPILE})

# Kernels are large, so programs that are packed together share them, and the CUDA runtime that registers them.
set(foldgrad_library_type STATIC)
set(foldgrad_cudart CUDA::cudart_static)
if(FOLDGRAD_RELOCATABLE)
  set(foldgrad_library_type SHARED)
  set(foldgrad_cudart CUDA::cudart)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
endif()

set(foldgrad_have_cudart OFF)  # device memory instead of the host's
if(foldgrad_cuda STREQUAL ON)
  set(foldgrad_have_cudart ON)
endif()

# Splits the sources of a folder and its subfolders into host code and kernels, without those of missing libraries.
function(foldgrad_sources folder host_out kernels_out)
  file(GLOB_RECURSE host CONFIGURE_DEPENDS ${folder}/*.cpp)
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${folder}/*.cu)
  list(FILTER host EXCLUDE REGEX "/main\\.cpp$")
  if(NOT FOLDGRAD_FAST)
    list(FILTER host EXCLUDE REGEX "/fast/")
    list(FILTER kernels EXCLUDE REGEX "/fast/")
  endif()
  foreach(library onednn cblas cublas cudnn cudart sentencepiece libpng turbojpeg mpi zmq nccl)
    set(absent ${host} ${kernels})
    list(FILTER absent INCLUDE REGEX "_no_${library}\\.(cpp|cu)$")
    set(present ${host} ${kernels})
    list(FILTER present INCLUDE REGEX "[_/]${library}\\.(cpp|cu)$")
    list(REMOVE_ITEM present ${absent} "")
    # Connections to other processes are separate libraries.
    if(NOT foldgrad_have_${library} OR library MATCHES "^(mpi|zmq|nccl)$")
      list(REMOVE_ITEM host ${present} "")
      list(REMOVE_ITEM kernels ${present} "")
    endif()
    if(foldgrad_have_${library})
      list(REMOVE_ITEM host ${absent} "")
    endif()
  endforeach()
  set(fast ${kernels})
  list(FILTER fast INCLUDE REGEX "/fast/")
  if(fast)  # they have the names of the plain kernels
    set_source_files_properties(${fast} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  if(foldgrad_cuda STREQUAL OFF)
    set(kernels "")
  elseif(foldgrad_cuda STREQUAL EMULATE AND kernels)
    set_source_files_properties(${kernels} PROPERTIES LANGUAGE CXX)
  endif()
  set(contracted ${host})
  list(FILTER contracted INCLUDE REGEX "_fma\\.cpp$")
  if(contracted)
    # Below -O2, as in sanitizer builds, GCC fuses only with its expensive optimizations.
    set_source_files_properties(${contracted} PROPERTIES
      COMPILE_OPTIONS "-ffp-contract=fast;$<$<CXX_COMPILER_ID:GNU>:-fexpensive-optimizations>"
      SKIP_PRECOMPILE_HEADERS ON)
  endif()
  set(${host_out} ${host} PARENT_SCOPE)
  set(${kernels_out} ${kernels} PARENT_SCOPE)
endfunction()

# Kernels are C++17 for either compiler, so they are separate objects inside the library.
function(foldgrad_add_kernels library kernels)
  add_library(${library}_kernels OBJECT ${kernels})
  set_target_properties(${library}_kernels PROPERTIES CXX_STANDARD 17)
  target_link_libraries(${library}_kernels PRIVATE foldgrad_settings)
  target_sources(${library} PRIVATE $<TARGET_OBJECTS:${library}_kernels>)
endfunction()

# A library of the sources in `folder`; further arguments are linked. Other projects call foldgrad_engine
# foldgrad::engine. Targets that link it must use C++20; kernels, which are C++17, link only the settings.
function(foldgrad_add_library library folder)
  foldgrad_sources(${folder} host kernels)
  add_library(${library} ${foldgrad_library_type} ${host})
  string(REPLACE foldgrad_ "" component ${library})
  set_target_properties(${library} PROPERTIES LINKER_LANGUAGE CXX EXPORT_NAME ${component} DEFINE_SYMBOL "")
  target_compile_features(${library} PUBLIC cxx_std_20)
  target_link_libraries(${library} PUBLIC foldgrad_settings ${ARGN})
  if(kernels)
    foldgrad_add_kernels(${library} "${kernels}")
  endif()
endfunction()

# Compiles those sources of a library whose path matches as a separate target, which can have its own flags.
function(foldgrad_compile_apart library part pattern)
  get_target_property(chosen ${library} SOURCES)
  set(others ${chosen})
  list(FILTER chosen INCLUDE REGEX ${pattern})
  list(FILTER others EXCLUDE REGEX ${pattern})
  get_target_property(links ${library} LINK_LIBRARIES)
  add_library(${part} OBJECT ${chosen})
  target_link_libraries(${part} PRIVATE ${links})
  set_target_properties(${library} PROPERTIES SOURCES "${others};$<TARGET_OBJECTS:${part}>")
endfunction()

# Adds the optional libraries of this build to a list of links, and their headers to the include path of all targets.
function(foldgrad_link_optional links)  # their names follow
  foreach(library ${ARGN})
    if(foldgrad_have_${library})
      target_include_directories(foldgrad_settings SYSTEM INTERFACE ${foldgrad_${library}_include})
      list(APPEND ${links} ${foldgrad_${library}})
    endif()
  endforeach()
  set(${links} ${${links}} PARENT_SCOPE)
endfunction()

add_library(foldgrad_settings INTERFACE)
target_include_directories(foldgrad_settings INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                           $<INSTALL_INTERFACE:include/foldgrad>)
target_link_libraries(foldgrad_settings INTERFACE Threads::Threads)
foreach(library onednn cblas cublas cudnn)
  if(foldgrad_have_${library})
    string(TOUPPER ${library} upper)
    target_compile_definitions(foldgrad_settings INTERFACE FOLDGRAD_HAVE_${upper})
  endif()
endforeach()
if(NOT foldgrad_cuda STREQUAL OFF)
  target_compile_definitions(foldgrad_settings INTERFACE FOLDGRAD_HAVE_CUDA)
endif()
if(FOLDGRAD_FAST)
  target_compile_definitions(foldgrad_settings INTERFACE FOLDGRAD_FAST)
endif()
foldgrad_feature("Fast kernels" ${FOLDGRAD_FAST} "FOLDGRAD_FAST" "")

set(engine_links fmt::fmt nlohmann_json::nlohmann_json)
if(foldgrad_cuda STREQUAL EMULATE)
  target_compile_definitions(foldgrad_settings INTERFACE FOLDGRAD_EMULATE)
  foldgrad_add_library(foldgrad_emulation ${PROJECT_SOURCE_DIR}/emulation)
  list(APPEND engine_links foldgrad_emulation)
elseif(foldgrad_cuda STREQUAL ON)
  target_include_directories(foldgrad_settings SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
  list(APPEND engine_links ${foldgrad_cudart})
endif()
foldgrad_link_optional(engine_links onednn cblas)
list(APPEND engine_links ${OpenMP_CXX_LIBRARIES})
if(foldgrad_have_cublas)
  list(APPEND engine_links CUDA::cublasLt)
endif()

foldgrad_add_library(foldgrad_engine ${PROJECT_SOURCE_DIR}/engine ${engine_links} ${CMAKE_DL_LIBS})
if(foldgrad_cpu_level GREATER 1)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/engine/cpu/support.cpp PROPERTIES
                              COMPILE_DEFINITIONS "FOLDGRAD_CPU_LEVEL=\"x86-64-v${foldgrad_cpu_level}\""
                              COMPILE_OPTIONS -march=x86-64 SKIP_PRECOMPILE_HEADERS ON)  # runs on CPUs of any level
endif()
foldgrad_link_optional(ops_links cudnn)
set(train_links CLI11::CLI11 tomlplusplus::tomlplusplus OpenSSL::Crypto)
foldgrad_link_optional(train_links sentencepiece libpng turbojpeg)
# Separate, so that programs start without the libraries that these link (engine/parallel/module.h).
set(foldgrad_modules "")
function(foldgrad_add_module module source)  # further arguments are linked
  add_library(${module} MODULE ${PROJECT_SOURCE_DIR}/engine/parallel/${source})
  set_target_properties(${module} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
                        POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF)
  target_compile_features(${module} PRIVATE cxx_std_20)
  target_include_directories(${module} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${module} PRIVATE ${ARGN})
  add_dependencies(foldgrad_engine ${module})
  set(foldgrad_modules ${foldgrad_modules} ${module} PARENT_SCOPE)
endfunction()
if(foldgrad_have_mpi)
  foldgrad_add_module(foldgrad_mpi mpi/processes_mpi.cpp MPI::MPI_CXX)
endif()
if(foldgrad_have_zmq)
  foldgrad_add_module(foldgrad_zmq zmq/processes_zmq.cpp ${foldgrad_zmq})
endif()
if(foldgrad_have_nccl)
  foldgrad_add_module(foldgrad_nccl nccl/link_nccl.cpp ${foldgrad_nccl})
  target_include_directories(foldgrad_nccl SYSTEM PRIVATE ${foldgrad_nccl_include} ${CUDAToolkit_INCLUDE_DIRS})
endif()
set(foldgrad_libraries foldgrad_engine)  # the lowest first; each links all before it
foreach(folder ops models train)
  foldgrad_add_library(foldgrad_${folder} ${PROJECT_SOURCE_DIR}/${folder} ${foldgrad_libraries} ${${folder}_links})
  list(APPEND foldgrad_libraries foldgrad_${folder})
endforeach()

include(FoldgradReport)

# The configuration of `foldgrad demo`, as a C++ string.
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS configs/numbers.toml)
file(READ ${PROJECT_SOURCE_DIR}/configs/numbers.toml demo_config)
configure_file(${PROJECT_SOURCE_DIR}/cmake/demo_config.cpp.in ${PROJECT_BINARY_DIR}/demo/demo_config.cpp @ONLY)
target_sources(foldgrad_train PRIVATE ${PROJECT_BINARY_DIR}/demo/demo_config.cpp)

# Code that combines operations, reads text, keeps records, checks and prints gets -O1: more would only take longer to
# compile, since the work is done in operations, loop/, data/ and tasks/classification/. It must not share a precompiled
# header with code of other options: GCC would use the header's options.
foldgrad_compile_apart(foldgrad_train foldgrad_commands "/train/(commands/|(complete|families|manual|program)\\.cpp$)")
foldgrad_compile_apart(foldgrad_train foldgrad_records
                       "/train/((analyses|checkpoints|checks|config|reports|runs|system)/|tasks/[a-z_]+\\.cpp$)")
foldgrad_compile_apart(foldgrad_train foldgrad_texts "/train/tasks/(language|translation)/")
foreach(part foldgrad_models foldgrad_commands foldgrad_records foldgrad_texts)
  target_compile_options(${part} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1>)
endforeach()
# The rest becomes a part as well, since a library's own sources wait for all objects of its parts.
foldgrad_compile_apart(foldgrad_train foldgrad_training "\\.cpp$")
target_precompile_headers(foldgrad_engine PRIVATE <fmt/core.h> <functional> <map> <memory> <string> <vector>)
foreach(library ops training)
  target_precompile_headers(foldgrad_${library} REUSE_FROM foldgrad_engine)
endforeach()
target_precompile_headers(foldgrad_records PRIVATE <fmt/format.h> <nlohmann/json.hpp>)
foreach(library commands texts)
  target_precompile_headers(foldgrad_${library} REUSE_FROM foldgrad_records)
endforeach()

# Names in these libraries' files do not clash, so that few cores may compile more of them as one; many cores would wait
# for the last ones.
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
if(cores LESS 8)
  foreach(library models records commands)
    set_target_properties(foldgrad_${library} PROPERTIES UNITY_BUILD_BATCH_SIZE 32)
  endforeach()
endif()

# The program. Its version header is written with every build, since the commit changes without cmake.
string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
string(JOIN " " flags ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}} ${cxx_flags})
set(version_header ${PROJECT_BINARY_DIR}/version/foldgrad_version.h)
add_custom_target(foldgrad_version BYPRODUCTS ${version_header}
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${version_header} -DVERSION=${PROJECT_VERSION}
          "-DCOMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, ${CMAKE_BUILD_TYPE}"
          "-DFLAGS=${flags}"
          -P ${PROJECT_SOURCE_DIR}/cmake/write_version.cmake
  VERBATIM)
add_executable(foldgrad ${PROJECT_SOURCE_DIR}/train/main.cpp)
target_include_directories(foldgrad PRIVATE ${PROJECT_BINARY_DIR}/version)
target_link_libraries(foldgrad PRIVATE ${foldgrad_libraries})
add_dependencies(foldgrad foldgrad_version)

set(CMAKE_UNITY_BUILD OFF)

# The engine in one file, for readers. It uses no other file.
add_executable(tiny ${PROJECT_SOURCE_DIR}/book/tiny.cpp)

# The matrix product ladders, which only tests and a benchmark link.
set(foldgrad_library_type STATIC)
foldgrad_add_library(foldgrad_ladder ${PROJECT_SOURCE_DIR}/book/ladder foldgrad_engine)

# Each bench/*_bench.cpp is a program; they share the other files there.
if(foldgrad_have_bench)
  foldgrad_sources(${PROJECT_SOURCE_DIR}/bench sources kernels)
  set(programs ${sources})
  list(FILTER sources EXCLUDE REGEX "_bench\\.cpp$")
  list(FILTER programs INCLUDE REGEX "_bench\\.cpp$")
  add_library(foldgrad_bench STATIC ${sources})
  target_link_libraries(foldgrad_bench PUBLIC ${foldgrad_libraries} foldgrad_ladder benchmark::benchmark)
  if(kernels)
    foldgrad_add_kernels(foldgrad_bench "${kernels}")
  endif()
  foreach(program ${programs})
    get_filename_component(name ${program} NAME_WE)
    add_executable(${name} ${program})
    target_link_libraries(${name} PRIVATE foldgrad_bench)
  endforeach()
endif()
