# Functions of scripts/setup. Sourced from the repository's root.

say() { printf '\033[2m[setup] %s\033[0m\n' "$*" >&2; }
die() { printf 'setup: %s\n' "$*" >&2; exit 4; }
is_root() { [ "$(id -u)" = 0 ]; }
has() { command -v "$1" >/dev/null 2>&1; }

find_python() {
    local candidate
    for candidate in python3 python3.13 python3.12 python3.11; do
        if has "$candidate" && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
            command -v "$candidate"
            return
        fi
    done
    die "Python 3.11 or later is needed (Debian, Ubuntu: apt-get install python3)"
}

# Fetches Debian packages without root and unpacks them into .venv/deb. Works with the machine's own package lists, or,
# where these are empty, with lists of our own.
unpack_debs() {
    local state=$PWD/.venv/apt options=()
    has apt-get && has dpkg-deb || return 1
    mkdir -p .venv/deb "$state/lists/partial" "$state/cache/archives/partial"
    if ! (cd "$state" && apt-get -qq download "$@" 2>/dev/null); then
        options=(-o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state/cache" -o APT::Sandbox::User=)
        apt-get -qq "${options[@]}" update >/dev/null 2>&1 || return 1
        (cd "$state" && apt-get -qq "${options[@]}" download "$@" >/dev/null 2>&1) || return 1
    fi
    local deb
    for deb in "$state"/*.deb; do
        dpkg-deb -x "$deb" .venv/deb
    done
    rm -rf "$state"
}

# A virtual environment with pip. Debian's python3 comes without ensurepip: then pip is taken from the distribution's
# python3-pip-whl package, unpacked, not installed.
make_venv() {
    local python=$1 wheel
    if [ -x .venv/bin/python ] && .venv/bin/python -m pip --version >/dev/null 2>&1; then
        return
    fi
    say "making .venv with $python"
    if "$python" -m venv .venv >/dev/null 2>&1; then
        return
    fi
    rm -rf .venv
    "$python" -m venv --without-pip .venv || die "$python cannot make virtual environments"
    if ! unpack_debs python3-pip-whl; then
        die "this Python has no pip (Debian, Ubuntu: apt-get install python3-venv, then run this again)"
    fi
    wheel=$(ls .venv/deb/usr/share/python-wheels/pip-*.whl | head -n 1)
    .venv/bin/python "$wheel/pip" install --quiet --no-index "$wheel"
}

# LLVM 20 or later with AMDGPU: assembler, disassembler, linker of one version.
has_system_llvm() {
    local folder suffix
    for folder in "${ROCM_PATH:-/opt/rocm}/llvm/bin" /usr/bin /usr/local/bin; do
        for suffix in "" -22 -21 -20; do
            if [ -x "$folder/llvm-mc$suffix" ] && [ -x "$folder/llvm-objdump$suffix" ] && [ -x "$folder/ld.lld$suffix" ] &&
                "$folder/llvm-mc$suffix" --version | grep -q amdgcn &&
                "$folder/llvm-mc$suffix" --version | grep -Eq 'version (2[0-9]|[3-9][0-9])\.'; then
                return
            fi
        done
    done
    return 1
}

compiles_cxx20() {
    printf '#include <span>\n#include <atomic>\nint main() { return 0; }\n' |
        "$1" -x c++ -std=c++20 -march=x86-64-v3 -fsyntax-only - >/dev/null 2>&1
}

system_compiler() {
    local pair
    for pair in "${CC:-}:${CXX:-}" gcc:g++ clang:clang++ clang-22:clang++-22 cc:c++; do
        if [ -n "${pair%%:*}" ] && has "${pair%%:*}" && has "${pair##*:}" && compiles_cxx20 "${pair##*:}"; then
            echo "$pair"
            return
        fi
    done
    return 1
}
has_system_compiler() { system_compiler >/dev/null; }

python_include() { .venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("include"))'; }

# Triton compiles its driver.c against Python.h at run time.
provide_python_headers() {
    local version
    version=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if [ -f "$(python_include)/Python.h" ] || [ -f ".venv/deb/usr/include/python$version/Python.h" ]; then
        return
    fi
    if is_root && has apt-get && say "installing libpython$version-dev" && apt-get -qq install -y "libpython$version-dev" >/dev/null 2>&1 &&
        [ -f "$(python_include)/Python.h" ]; then
        return
    fi
    say "unpacking Python $version headers into .venv"
    unpack_debs "libpython$version-dev" libexpat1-dev zlib1g-dev ||
        die "Python.h is missing (Debian, Ubuntu: apt-get install libpython$version-dev)"
}

# .venv/bin/asmevo-cc and asmevo-c++: the compiler that builds the native parts and, named by CC, Triton's driver.c.
write_compiler_wrappers() {
    local pair version deb=$PWD/.venv/deb/usr/include include=()
    version=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if [ ! -f "$(python_include)/Python.h" ]; then
        include=("-I$deb/python$version" "-I$deb")
    fi
    if pair=$(system_compiler); then
        write_wrapper asmevo-cc "${pair%%:*}" "${include[@]}"
        write_wrapper asmevo-c++ "${pair##*:}" "${include[@]}"
    else
        # Without optimisation zig would instrument the code for undefined behaviour.
        write_wrapper asmevo-cc "$PWD/.venv/bin/python" -m ziglang cc -fno-sanitize=undefined "${include[@]}"
        write_wrapper asmevo-c++ "$PWD/.venv/bin/python" -m ziglang c++ -fno-sanitize=undefined "${include[@]}"
        write_torch_wrapper
    fi
    CC=$PWD/.venv/bin/asmevo-cc
    CXX=$PWD/.venv/bin/asmevo-c++
    export CC CXX
}

# .venv/bin/asmevo-torch-c++: zig with the headers of the libstdc++ that torch is linked with, for the backend that the
# emulated device has in torch. The headers have the version of the system's library.
write_torch_wrapper() {
    local major deb=$PWD/.venv/deb/usr/include library
    library=$(ldconfig -p 2>/dev/null | sed -n 's/^.*libstdc++\.so\.6 (.*x86-64.* => //p' | head -n 1)
    major=$(dpkg-query -W -f='${Version}' libstdc++6 2>/dev/null | cut -d. -f1)
    if [ -z "$library" ] || [ -z "$major" ]; then
        return
    fi
    if [ ! -d "$deb/c++/$major" ] && ! unpack_debs "libstdc++-$major-dev"; then
        say "no headers of libstdc++: torch gets no emulated device (Debian, Ubuntu: apt-get install g++)"
        return
    fi
    write_wrapper asmevo-torch-c++ "$PWD/.venv/bin/python" -m ziglang c++ -fno-sanitize=undefined \
        -nostdinc++ "-I$deb/c++/$major" "-I$deb/x86_64-linux-gnu/c++/$major" -nostdlib++ "$library"
}

write_wrapper() {
    local name=$1
    shift
    { echo '#!/bin/bash' && printf 'exec' && printf ' %q' "$@" && echo ' "$@"'; } >".venv/bin/$name"
    chmod +x ".venv/bin/$name"
}
