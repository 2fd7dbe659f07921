# Functions for the scripts that pack programs for other machines.

# Prints the libraries that programs load, except the C and C++ libraries. These two must come from the machine that
# runs the programs: a program can use a newer version than the one it was built with, and other libraries of that
# machine may need the newer version.
libraries_of() {  # PROGRAM...
  local program
  for program in "$@"; do
    ldd "$program" | awk '$2 == "=>" {print $3}'
  done | sort -u | grep -vE '/(lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s)|ld-linux[^/]*)\.so[^/]*$'
}

# Prints the newest versions of the C and C++ libraries that the files require, such as "GLIBC_2.36 GLIBCXX_3.4.30".
needed_versions() {  # FILE...
  local library symbols
  symbols=$(objdump -T "$@" 2>/dev/null)
  for library in GLIBC GLIBCXX; do
    grep -oE "\b${library}_[0-9.]+" <<<"$symbols" | sort -Vu | tail -n 1
  done | xargs
}

# Copies the C and C++ libraries into an empty root.
fill_root() {  # ROOT
  local library
  mkdir -p "$1"/{tmp,lib,lib64}
  cp -L "$(gcc -print-file-name=ld-linux-x86-64.so.2)" "$1/lib64/"
  for library in libc.so.6 libm.so.6 libdl.so.2 librt.so.1 libpthread.so.0 libresolv.so.2 libgcc_s.so.1 \
    libstdc++.so.6; do
    cp -L "$(gcc -print-file-name="$library")" "$1/lib/"
  done
}

# Runs a command in a root. Since the root has no /proc, a program does not find libraries relative to its own path, so
# LIBRARIES names their folder.
in_root() {  # ROOT LIBRARIES COMMAND...
  local enter=("$(PATH=$PATH:/usr/sbin command -v chroot)")
  ((EUID == 0)) || enter=("$(command -v unshare)" --map-root-user "${enter[@]}")
  timeout 60 env -i LD_LIBRARY_PATH="/lib:$2" "${enter[@]}" "$1" "${@:3}"
}
