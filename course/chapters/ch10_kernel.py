"""Chapter 10: a kernel for [RMS-3] on an emulated GPU. Read ch10_kernel.md first."""


# Exercise 10.1
def columns(thread, threads, C):
    """Returns the columns of a row [C] that a thread handles. Each column belongs to one thread, and neighbouring
    threads read neighbouring columns."""
    return range(thread, C, threads)


# Exercise 10.2
def block_sum(t, value):
    """Returns, in each thread, the sum of `value` over the threads of the block. Call this generator with `yield from`.

    t.threads is a power of two, and t.shared has t.threads words. A kernel may call block_sum again right away.
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
    """Writes row t.block of dx [R, C] by [RMS-3]. rrms is [R], and h = dy gamma is [R, C]."""
    C, row = x.shape[1], t.block
    along = 0.0
    for c in columns(t.thread, t.threads, C):
        along += h[row, c] * x[row, c] * rrms[row]
    along = yield from block_sum(t, along)
    for c in columns(t.thread, t.threads, C):
        dx[row, c] = rrms[row] * (h[row, c] - x[row, c] * rrms[row] * along / C)
