"""Checks that the CPU supports the instructions for which the module was compiled. Without this check, the first
unsupported instruction would kill the process."""
# The flags in /proc/cpuinfo that each level of x86-64 adds to the level below it.
_FLAGS: dict[int, str] = {
    2: "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3",
    3: "abm avx avx2 bmi1 bmi2 f16c fma movbe",
    4: "avx512bw avx512cd avx512dq avx512f avx512vl",
}


def require_level(level: int, cpuinfo: str = "/proc/cpuinfo") -> None:
    """Raises ImportError if the CPU lacks instructions of x86-64-v`level`. Does nothing if its flags cannot be read."""
    try:
        with open(cpuinfo) as file:
            found = next(line for line in file if line.startswith("flags")).split()
    except (OSError, StopIteration):
        return
    missing = [flag for at in range(2, level + 1) for flag in _FLAGS[at].split() if flag not in found]
    if missing:
        raise ImportError(f"foldgrad was built for CPUs of level x86-64-v{level}, and this one lacks "
                          f"{', '.join(missing)}; build it on this machine: pip install . (docs/python.md)")
