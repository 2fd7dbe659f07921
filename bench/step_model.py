#!/usr/bin/env python3
"""Predicts the time of an IWSLT14 training step on an H100 by calculation; nothing is measured.

Prints the table of docs/cuda.md: each kernel of a step in bf16 with its launches, bytes, operations and registers, and
the predicted time. The model has 6 + 6 layers of width 512 and 10,152 words, and a batch has 128 x 32 tokens on each
side; training has dropout and clips gradients.

    scripts/kernel_gates --show | bench/step_model.py [--normalizer un]
"""
import argparse
import re
import sys
from dataclasses import dataclass

BANDWIDTH = 3.0e12  # bytes/s that a copy reaches on an H100
PRODUCTS = 375e12   # operations/s: an estimate for products as small as these; the peak is 989e12 of dense bf16
GAP = 1.1e-6        # seconds between two kernels
RAMP = 1.9e-6       # seconds in which a kernel reaches full bandwidth and, at its end, leaves it: an estimate
LATENCY = 0.6e-6    # seconds, of memory: an estimate; by Little's law, each of 132 SMs needs 13.6 KB in flight
SMS = 132

ROWS, WIDTH, INNER, WORDS, PARAMETERS = 4096, 512, 1024, 10152, 36.7e6
M, F, L = ROWS * WIDTH * 2, ROWS * INNER * 2, ROWS * WORDS * 2  # bytes of the matrices


@dataclass
class Kernel:
    name: str
    launches: int
    bytes: float = 0         # per launch
    operations: float = 0    # per launch
    pattern: str = ""        # matches the kernel's line in the output of kernel_gates; empty for a library kernel
    threads: int = 256       # per block
    packs: int = 0           # packs of 16 bytes that a thread requests before it waits for one

    def seconds(self):
        moved = self.bytes / BANDWIDTH + RAMP if self.bytes else 0
        return max(moved, self.operations / PRODUCTS) + GAP


def kernels(normalizer):
    sums = r"finish_column_sums_kernel<"
    parts = r"column_sum_parts_kernel<8, true, "
    norm = [Kernel("layer norm, forward", 32, 2 * M, 0, r"LayerNormForward<bf16>, RowShare<32, 8, 4", 128, 4),
            Kernel("layer norm, backward and parts of sums", 32, 3 * M, 0,
                   r"row_sums_kernel<LayerNormBackward<bf16>, RowShare<32, 8, 2", 256, 4),
            Kernel("the sums", 32, 256 * 2 * WIDTH * 4, 0, sums + r"ColumnSumsOf<LayerNormBackward<bf16>", 256, 4)]
    if normalizer == "un":
        norm = [Kernel("UN, moments", 32, M, 0, r"block_sums_kernel<8, ChannelSquaresPass<bf16>", 256, 4),
                Kernel("UN, totals and statistics", 64, 1e5, 0, r"statistics_kernel<bf16>"),
                Kernel("UN, apply", 32, 2 * M, 0, r"matrix_kernel<8, ChannelApply<bf16>", 256, 1),
                Kernel("UN, sums of backward", 32, 2 * M, 0, r"block_sums_kernel<8, ChannelGradientPass<bf16>", 256, 8),
                Kernel("UN, totals and psi", 64, 1e5, 0, r"elementwise_kernel<ChannelBackward<bf16>"),
                Kernel("UN, gradient", 32, 3 * M, 0, r"matrix_kernel<8, ChannelGradient<bf16>", 256, 2)]
    return [
        Kernel("products, bias and its gradient (cuBLASLt)", 291, 0, 0.901e12 / 291),
        Kernel("bias, dropout, residual, forward", 30, 3 * M, 0, r"matrix_kernel<8, BiasDropoutResidualForward<bf16>",
               256, 2),
        Kernel("the same, backward and parts of sums", 30, 2 * M, 0, parts + r"BiasDropoutResidualBackward<bf16>",
               256, 4),
        Kernel("the sums", 30, 128 * WIDTH * 4, 0, sums + r"BiasDropoutResidualBackward<bf16>", 256, 4),
        *norm,
        Kernel("bias, ReLU, dropout, forward", 12, 2 * F, 0,
               r"matrix_kernel<8, BiasActivationDropoutForward<bf16, \w+::Relu", 256, 1),
        Kernel("the same, backward and parts of sums", 12, 3 * F, 0,
               parts + r"BiasActivationDropoutBackward<bf16, \w+::Relu", 256, 8),
        Kernel("the sums", 12, 128 * INNER * 4, 0,
               sums + r"BiasActivationDropoutBackward<bf16, \w+::Relu", 256, 4),
        Kernel("attention, forward", 18, 4 * M, 4 * 32 * ROWS * WIDTH, r" forward_kernel<128>\(AttentionForward<bf16>"),
        Kernel("attention, backward", 18, 8 * M, 10 * 32 * ROWS * WIDTH, r"backward_kv_kernel<128, true>"),
        Kernel("cross entropy, forward", 2, L / 2, 0,
               r"row_in_registers_kernel<CrossEntropyForward<bf16>, RowShare<1024", 1024, 2),
        Kernel("cross entropy, backward", 1, 2 * L, 0,
               r"backward_kernel<bf16, 8>\(CrossEntropyBackward<bf16>", 512, 1),
        Kernel("embeddings and positions", 6, 2 * M, 0, r"gather_kernel<bf16, 8>"),
        Kernel("gradients of embeddings, one set, one added to", 2, M + 1.5 * WORDS * WIDTH * 4, 0,
               r"backward_kernel<bf16, 4>\(EmbeddingBackward<bf16>"),
        Kernel("norm of the gradient", 4, PARAMETERS * 4 / 4, 0,
               r"multi_tensor_kernel<NormTensor<float>, SquarePiece<float>", 256, 4),
        Kernel("Adam", 3, PARAMETERS * 30 / 3, 0,
               r"multi_tensor_kernel<UpdatedTensor<float>, UpdatePiece<AdamRule<float>", 256, 4),
    ]


def registers(shown, pattern):
    """Returns the registers of the first kernel that matches."""
    found = next((line for line in shown if re.search(pattern, line)), None)
    if not found:
        raise SystemExit(f"step_model: scripts/kernel_gates --show lists no kernel that matches {pattern}")
    return int(found.split()[0])


def in_flight(kernel, used):
    """Returns the bytes in flight on an SM, which runs as many blocks as fit its 65,536 registers and 2,048 threads."""
    per_block = -(-used // 8) * 8 * kernel.threads
    blocks = min(65536 // per_block, 2048 // kernel.threads)
    return blocks * kernel.threads * kernel.packs * 16


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--normalizer", choices=["ln", "un"], default="ln")
    table = kernels(parser.parse_args().normalizer)
    shown = [line for line in sys.stdin if " registers " in line]
    print("| kernel | launches | MB each | Mflop each | registers | KB in flight an SM | predicted ms in all |")
    print("|---|---|---|---|---|---|---|")
    for k in table:
        used = registers(shown, k.pattern) if k.pattern else None
        cells = [k.name, k.launches, f"{k.bytes / 1e6:.1f}" if k.bytes else "-",
                 f"{k.operations / 1e6:,.0f}" if k.operations else "-", used or "-",
                 f"{in_flight(k, used) / 1e3:.0f}" if k.packs else "-", f"{k.launches * k.seconds() * 1e3:.2f}"]
        print("| " + " | ".join(map(str, cells)) + " |")
    total = sum(k.launches * k.seconds() for k in table)
    print(f"| together | {sum(k.launches for k in table)} | | | | | {total * 1e3:.2f} |")


if __name__ == "__main__":
    main()
