"""Runs a kernel written as a generator the way a GPU does: blocks of threads, shared memory, barriers.

chapters/ch10_kernel.md has an example. Between two barriers threads run in a random order. launch() raises Fault where
a GPU would compute garbage in silence: an index out of bounds, a word that one thread writes and another uses between
the same two barriers, a word that one block writes and a later one uses, shared memory that nothing has written, a
barrier that some threads of a block do not reach. It has no warp instructions, caches or time.
"""
import inspect
import random
from types import SimpleNamespace

import numpy as np

WARP, SEGMENT = 32, 32  # threads of a warp; elements of a transaction: 128 bytes of f32


class Fault(Exception):
    """A mistake of the kernel."""


class _Memory:
    """An array that checks and notes each access of the running thread."""

    def __init__(self, name, array, run):
        self.name, self.array, self.run, self.shape = name, array, run, array.shape
        self.used = {}      # between two barriers: element -> [its threads, whether one wrote]
        self.accesses = {}  # between two barriers: (warp, n) -> the segments of the n-th access of its threads
        self.count = {}     # of a thread: its accesses since the last barrier
        self.block = {}     # element -> the block that wrote it

    def place(self, index, writes):
        index = tuple(map(int, index if isinstance(index, tuple) else (index,)))
        thread = self.run.thread
        if len(index) != len(self.shape):
            raise Fault(f"thread {thread}: {self.name}{list(index)} is not an element, its shape is {self.shape}")
        if not all(0 <= i < n for i, n in zip(index, self.shape)):
            raise Fault(f"thread {thread}: {self.name}{list(index)} is out of bounds, its shape is {self.shape}")
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
            raise Fault(f"thread {self.run.thread} reads shared[{index}], which nothing has written")
        return value

    def __setitem__(self, index, value):
        self.array[self.place(index, True)] = value

    def barrier(self):
        """Forgets the accesses so far and returns how many transactions they took."""
        transactions = sum(map(len, self.accesses.values()))
        self.used, self.accesses, self.count = {}, {}, {}
        return transactions


def _line(thread):
    while thread.gi_yieldfrom is not None:
        thread = thread.gi_yieldfrom
    return f"line {thread.gi_frame.f_lineno}"


def launch(kernel, blocks, threads, *arrays, seed=1):
    """Runs the kernel for each thread of each block. Returns {"transactions": n, "barriers": n}, of global memory."""
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
                raise Fault("threads are not at one barrier: " + ", ".join(
                    f"thread {thread} at {where}" for where, thread in reached.items()))
            if fault:
                raise fault
            if "its end" in reached:
                waiting = {}
            stats["barriers"] += bool(waiting)
            stats["transactions"] += sum(m.barrier() for m in memory)
            shared.barrier()
    return stats
