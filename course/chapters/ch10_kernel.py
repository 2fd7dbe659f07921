"""Chapter 10, [RMS-3] for a GPU, emulated. ch10_kernel.md explains it."""


# Exercise 10.1
def columns(thread, threads, C):
    """Returns the columns of a row [C] that a thread handles: each column one thread, neighbours read neighbours."""
    return range(thread, C, threads)


# Exercise 10.2
def block_sum(t, value):
    """Returns the sum of `value` over the threads of the block, to each thread. Call it by `yield from`.

    t.threads is a power of two; t.shared has t.threads words. It may be called again right away.
    """
    t.shared[t.thread] = value
    yield
    half = t.threads // 2
    while half:
        if t.thread < half:
            t.shared[t.thread] += t.shared[t.thread + half]
        yield
        half //= 2
    total = t.shared[0]
    yield
    return total


# Exercise 10.3
def rms_norm_backward(t, x, rrms, h, dx):
    """Writes dx [R, C] of row t.block by [RMS-3]; rrms is [R], h = dy gamma [R, C]."""
    C, row = x.shape[1], t.block
    along = 0.0
    for c in columns(t.thread, t.threads, C):
        along += h[row, c] * x[row, c] * rrms[row]
    along = yield from block_sum(t, along)
    for c in columns(t.thread, t.threads, C):
        dx[row, c] = rrms[row] * (h[row, c] - x[row, c] * rrms[row] * along / C)
