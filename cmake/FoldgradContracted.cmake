# Tests of kernels that fuse a * b + c into one operation, like nvcc's: contracted_NAME for some tests NAME. The kernels
# are compiled once more and linked before those of the libraries; all else is shared. These programs are built only on
# request, and ctest does not know them.

set(sources "")
foreach(library ${foldgrad_libraries})
  if(TARGET ${library}_kernels)
    get_target_property(kernels ${library}_kernels SOURCES)
    list(APPEND sources ${kernels})
  endif()
endforeach()
add_library(contracted_kernels OBJECT EXCLUDE_FROM_ALL ${sources})
set_target_properties(contracted_kernels PROPERTIES CXX_STANDARD 17)
target_compile_options(contracted_kernels PRIVATE -ffp-contract=fast)
target_link_libraries(contracted_kernels PRIVATE foldgrad_settings)

add_custom_target(contracted_tests)
foreach(name ops_test normalizers_device_test transformer_model_test)
  get_target_property(links ${name} LINK_LIBRARIES)
  add_executable(contracted_${name} EXCLUDE_FROM_ALL $<TARGET_OBJECTS:contracted_kernels> $<TARGET_OBJECTS:${name}>)
  target_link_libraries(contracted_${name} PRIVATE ${links})
  set_target_properties(contracted_${name} PROPERTIES LINKER_LANGUAGE CXX)
  add_dependencies(contracted_tests contracted_${name})
endforeach()
