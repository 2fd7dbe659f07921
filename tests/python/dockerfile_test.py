#!/usr/bin/env python3
"""Checks that the Dockerfile copies the program and its modules, and installs the packages of all libraries that
they are linked with. Builds no image (`.ci/run image` does), but must run on the image's Debian release."""
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

from setting import PROGRAM, SOURCES, call

IN_EVERY_IMAGE = {"libc6", "libgcc-s1"}


def package_of(library):
    """Returns the Debian package of a library. dpkg may list a library in /lib, which is now a link to /usr/lib."""
    for path in (os.path.realpath(library), os.path.realpath(library).removeprefix("/usr")):
        found = subprocess.run(["dpkg-query", "-S", path], capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    sys.exit(f"{library} belongs to no package")


def main():
    dockerfile = (Path(SOURCES) / "Dockerfile").read_text()
    release = re.search(r"^FROM debian:(\d+)-slim$", dockerfile, re.M)[1]
    try:
        here = platform.freedesktop_os_release()
    except OSError:
        here = {}
    if (here.get("ID"), here.get("VERSION_ID")) != ("debian", release):
        print(f"skipped: this is not Debian {release}")
        sys.exit(77)
    linked = set()
    modules = sorted(Path(PROGRAM).parent.glob("foldgrad_*.so"))
    for program in [PROGRAM, *modules]:
        direct = set(re.findall(r"NEEDED +(\S+)", call("objdump", "-p", program)))
        paths = dict(re.findall(r"^\s*(\S+) => (\S+) ", call("ldd", program), re.M))
        linked |= {package_of(path) for name, path in paths.items() if name in direct} - IN_EVERY_IMAGE
    copied = re.findall(r"^COPY --from=build (.*) /usr/local/bin/$", dockerfile, re.M)
    if not copied or not all(any(module.match(Path(pattern).name) for pattern in copied[0].split())
                             for module in [Path(PROGRAM), *modules]):
        sys.exit(f"the Dockerfile copies {copied}; "
                 f"the program needs {[module.name for module in modules]} in the same folder")
    installed = set(re.search(r"--no-install-recommends \\\n(.*?) \\\n &&", dockerfile, re.S)[1].split())
    if len(linked) < 3 or not linked <= installed:
        sys.exit(f"{PROGRAM} and its modules are linked with {sorted(linked)}; "
                 f"the Dockerfile lacks {sorted(linked - installed)}")
    print(f"{len(linked)} packages of libraries, {len(modules)} modules")


if __name__ == "__main__":
    main()
