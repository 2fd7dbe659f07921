# The ONNX writer, as a library of one object with protobuf inside: models/onnx/graph_onnx.cpp, protoc's translation of
# onnx.proto, and the necessary parts of libprotobuf-lite.a, linked beforehand.
#
# Not libonnx and a shared libprotobuf: Debian's SentencePiece contains another release of protobuf and exports its
# symbols. In one program, each would call functions of the other and crash. Within one object no symbol is looked up
# elsewhere, and --exclude-libs hides its symbols from SentencePiece.
set(folder ${PROJECT_BINARY_DIR}/onnx)
file(MAKE_DIRECTORY ${folder})
add_custom_command(OUTPUT ${folder}/onnx.pb.cc ${folder}/onnx.pb.h
  COMMAND ${foldgrad_protoc} --cpp_out=lite:${folder} -I${foldgrad_onnx_include}/onnx
          ${foldgrad_onnx_include}/onnx/onnx.proto
  VERBATIM)
set(source ${PROJECT_SOURCE_DIR}/models/onnx/graph_onnx.cpp)
add_library(foldgrad_onnx_objects OBJECT ${source} ${folder}/onnx.pb.cc)
set_source_files_properties(${folder}/onnx.pb.cc PROPERTIES COMPILE_OPTIONS "-O1;-w")
set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -O1)  # protobuf does the work
target_include_directories(foldgrad_onnx_objects SYSTEM PRIVATE ${folder} ${foldgrad_protobuf_include})
target_link_libraries(foldgrad_onnx_objects PRIVATE foldgrad_settings fmt::fmt)

add_custom_command(OUTPUT ${folder}/foldgrad_onnx.o
  COMMAND ${CMAKE_LINKER} -r -o ${folder}/foldgrad_onnx.o $<TARGET_OBJECTS:foldgrad_onnx_objects>
          ${foldgrad_onnx}
  DEPENDS foldgrad_onnx_objects $<TARGET_OBJECTS:foldgrad_onnx_objects>
  COMMAND_EXPAND_LISTS VERBATIM)
add_library(foldgrad_onnx STATIC ${folder}/foldgrad_onnx.o)
set_target_properties(foldgrad_onnx PROPERTIES LINKER_LANGUAGE CXX)
target_link_libraries(foldgrad_onnx PUBLIC foldgrad_engine)
target_link_options(foldgrad_onnx INTERFACE LINKER:--exclude-libs,libfoldgrad_onnx.a)
