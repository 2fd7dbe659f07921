# The Python package: the module foldgrad._core of python/binding/, and python/foldgrad/. Needs nanobind, a Python
# package: scripts/python.sh nanobind.

find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module OPTIONAL_COMPONENTS Development.SABIModule)
execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
if(status)
  message(FATAL_ERROR "FOLDGRAD_PYTHON=ON needs nanobind in ${Python_EXECUTABLE}: pip install nanobind, or name another "
                      "interpreter by -DPython_EXECUTABLE=...")
endif()
find_package(nanobind 3.1 CONFIG REQUIRED)

file(GLOB binding CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/binding/*.cpp)
file(GLOB package CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/foldgrad/*.py ${PROJECT_SOURCE_DIR}/python/foldgrad/*.pyi)
nanobind_add_module(_core STABLE_ABI NB_STATIC NB_DOMAIN foldgrad NB_SUPPRESS_WARNINGS ${binding})
foreach(library nanobind-static nanobind-static-abi3)
  if(TARGET ${library})
    target_compile_options(${library} PRIVATE -w)
    set_target_properties(${library} PROPERTIES UNITY_BUILD ${FOLDGRAD_PRECOMPILE} UNITY_BUILD_BATCH_SIZE 32)
  endif()
endforeach()
set(docstrings ${PROJECT_BINARY_DIR}/python/generated/python/binding/docstrings.h)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/python/generated/python/binding)
file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ops/*/*.h)
add_custom_command(OUTPUT ${docstrings}
  COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/python/binding/docstrings.py ${PROJECT_SOURCE_DIR} ${docstrings}
  DEPENDS ${PROJECT_SOURCE_DIR}/python/binding/docstrings.py ${PROJECT_SOURCE_DIR}/docs/ops.md ${headers} VERBATIM)
target_sources(_core PRIVATE ${docstrings})
target_include_directories(_core PRIVATE ${PROJECT_BINARY_DIR}/python/generated ${PROJECT_BINARY_DIR}/version)
target_link_libraries(_core PRIVATE ${foldgrad_libraries})
target_precompile_headers(_core PRIVATE ${PROJECT_SOURCE_DIR}/python/binding/tape.h)
# Another module in the process may contain another release of a library that is in ours.
target_link_options(_core PRIVATE LINKER:--exclude-libs,ALL)
add_dependencies(_core foldgrad_version)

# The build folder has the package as it would be installed, so that tests import it from there.
set(where ${PROJECT_BINARY_DIR}/python/foldgrad)
set_target_properties(_core PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${where})
file(MAKE_DIRECTORY ${where})
file(WRITE ${PROJECT_BINARY_DIR}/python/_level.py "LEVEL = ${foldgrad_cpu_level}\n")
file(CREATE_LINK ${PROJECT_BINARY_DIR}/python/_level.py ${where}/_level.py SYMBOLIC)
foreach(file ${package})
  cmake_path(GET file FILENAME name)
  file(CREATE_LINK ${file} ${where}/${name} SYMBOLIC)
endforeach()
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/course ${where}/course SYMBOLIC)
# Only for pip: EXCLUDE_FROM_ALL leaves them out of `cmake --install` without a component.
install(TARGETS _core LIBRARY DESTINATION foldgrad COMPONENT python EXCLUDE_FROM_ALL)
install(FILES ${PROJECT_BINARY_DIR}/python/_level.py DESTINATION foldgrad COMPONENT python EXCLUDE_FROM_ALL)
