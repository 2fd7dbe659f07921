"""Emulates a GPU: runs a kernel, written as a generator, with blocks of threads, shared memory and barriers.

chapters/ch10_kernel.md has an example. Between two barriers, threads run in a random order. launch() raises Fault where
a GPU would silently compute garbage: if an index is out of bounds, if one thread writes a word that another uses
between the same two barriers, if one block writes a word that a later block uses, if shared memory is read before it is
written, or if some threads of a block do not reach a barrier. Warp instructions, caches and time are not emulated.
"""
import inspect
import random
from types import SimpleNamespace

import numpy as np

WARP, SEGMENT = 32, 32  # threads in a warp; f32 elements in a transaction, which has 128 bytes


class Fault(Exception):
    """Raised for a mistake in the kernel."""


class _Memory:
    """An array that checks and records each access of the running thread."""

    def __init__(self, name, array, run):
        self.name, self.array, self.run, self.shape = name, array, run, array.shape
        # A barrier clears the first three.
        self.used = {}      # element -> [threads that used it, True if one of them wrote it]
        self.accesses = {}  # (warp, n) -> segments that the n-th accesses of the warp's threads touch
        self.count = {}     # thread -> index of its latest access
        self.block = {}     # element -> block that wrote it

    def place(self, index, writes):
        index = tuple(map(int, index if isinstance(index, tuple) else (index,)))
        thread = self.run.thread
        if len(index) != len(self.shape):
            raise Fault(f"thread {thread}: {self.name}{list(index)} is not an element; the shape is {self.shape}")
        if not all(0 <= i < n for i, n in zip(index, self.shape)):
            raise Fault(f"thread {thread}: {self.name}{list(index)} is out of bounds; the shape is {self.shape}")
        used = self.used.setdefault(index, [set(), False])
        used[0].add(thread)
        used[1] |= writes
        if used[1] and len(used[0]) > 1:
            raise Fault(f"threads {sorted(used[0])} all use {self.name}{list(index)} between the same two "
                        "barriers, and one writes it")
        writer = self.block.setdefault(index, self.run.block) if writes else self.block.get(index, self.run.block)
        if writer != self.run.block:
            raise Fault(f"blocks {writer} and {self.run.block} both use {self.name}{list(index)}, and one writes it")
        n = self.count[thread] = self.count.get(thread, -1) + 1
        flat = int(np.ravel_multi_index(index, self.shape))
        self.accesses.setdefault((thread // WARP, n), set()).add(flat // SEGMENT)
        return index

    def __getitem__(self, index):
        value = self.array[self.place(index, False)]
        if self.name == "shared" and np.isnan(value):
            raise Fault(f"thread {self.run.thread} reads shared[{index}], which no thread has written")
        return value

    def __setitem__(self, index, value):
        self.array[self.place(index, True)] = value

    def barrier(self):
        """Drops the accesses since the last barrier and returns the number of transactions that they took."""
        transactions = sum(map(len, self.accesses.values()))
        self.used, self.accesses, self.count = {}, {}, {}
        return transactions


def _line(thread):
    while thread.gi_yieldfrom is not None:
        thread = thread.gi_yieldfrom
    return f"line {thread.gi_frame.f_lineno}"


def launch(kernel, blocks, threads, *arrays, seed=1):
    """Runs the kernel for each thread of each block. Returns the number of global memory transactions and
    the number of barriers, {"transactions": n, "barriers": n}."""
    run, shuffle = SimpleNamespace(thread=0, block=0), random.Random(seed)
    _, *given = inspect.signature(kernel).bind(None, *arrays).arguments.items()
    memory = [_Memory(f"argument {name}", array, run) for name, array in given]
    stats = {"transactions": 0, "barriers": 0}
    for run.block in range(blocks):
        shared = _Memory("shared", np.full(threads, np.nan), run)
        waiting = {i: kernel(SimpleNamespace(block=run.block, thread=i, threads=threads, shared=shared), *memory)
                   for i in range(threads)}
        while waiting:
            order, reached, fault = list(waiting), {}, None
            shuffle.shuffle(order)
            for run.thread in order:
                try:
                    next(waiting[run.thread])
                    reached.setdefault(_line(waiting[run.thread]), run.thread)
                except StopIteration:
                    reached.setdefault("its end", run.thread)
                except Fault as e:
                    fault = fault or e
            if len(reached) > 1:
                raise Fault("threads are not at the same barrier: " + ", ".join(
                    f"thread {thread} at {where}" for where, thread in reached.items()))
            if fault:
                raise fault
            if "its end" in reached:
                waiting = {}
            stats["barriers"] += bool(waiting)
            stats["transactions"] += sum(m.barrier() for m in memory)
            shared.barrier()
    return stats
