"""onnx_check.py FILE...: checks models with the official ONNX library, which also infers all shapes in strict mode.

For each file, prints the inputs, the outputs, the number of nodes of each operator, and an empty line. Exits with code
77 (skipped) if the package onnx is missing.
"""
import collections
import sys

try:
    import onnx
except ImportError:
    sys.exit(77)


def shape(value):
    tensor = value.type.tensor_type
    sizes = ", ".join(d.dim_param or str(d.dim_value) for d in tensor.shape.dim)
    return f"{value.name} {onnx.TensorProto.DataType.Name(tensor.elem_type)} [{sizes}]"


for file in sys.argv[1:]:
    model = onnx.load(file)
    onnx.checker.check_model(model)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    print(*(f"input {shape(value)}" for value in model.graph.input), sep="\n")
    print(*(f"output {shape(value)}" for value in model.graph.output), sep="\n")
    operators = collections.Counter(node.op_type for node in model.graph.node)
    print(*(f"operator {op} {count}" for op, count in sorted(operators.items())), sep="\n", end="\n\n")
