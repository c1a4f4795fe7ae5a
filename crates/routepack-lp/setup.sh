#!/usr/bin/env bash
# Prepares what a build with HiGHS needs and writes $TARGET/highs/env.sh, to be sourced before cargo:
#
#   bash crates/routepack-lp/setup.sh && . target/highs/env.sh && cargo build --release $ROUTEPACK_FEATURES
#
# TARGET is $CARGO_TARGET_DIR, else target/ of this repository. ROUTEPACK_HIGHS chooses the way:
#   prebuilt  HiGHS and libclang from PyPI (Linux; takes seconds; HiGHS is linked dynamically)
#   source    cmake and libclang, of this machine or from PyPI; cargo compiles HiGHS and links it statically
#   none      no HiGHS; ROUTEPACK_FEATURES becomes --no-default-features
# Unset: what is prepared already, else prebuilt, else source.
# Everything is made in a directory aside and renamed at the end, so a kill leaves nothing half-prepared.
set -euo pipefail

highsbox=1.15.1 libclang=18.1.1 cmake=4.4.5 pkgconf=3.0.7.post0

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
mkdir -p "$target"
target=$(cd "$target" && pwd)
home=$target/highs new=$target/highs.new old=$target/highs.old
way=${ROUTEPACK_HIGHS:-auto}

say() { printf 'highs: %s\n' "$*" >&2; }

# The first line of env.sh: way, versions, place. What differs in it is prepared anew.
stamp() {
    case $1 in
        prebuilt) echo "# prebuilt: highsbox $highsbox, libclang $libclang, in $home" ;;
        source) echo "# source: cmake $cmake, libclang $libclang, in $home" ;;
        none) echo "# none, in $home" ;;
        *) say "ROUTEPACK_HIGHS is prebuilt, source or none, not '$1'" && exit 2 ;;
    esac
}

prepared() {
    local line
    [ -r "$home/env.sh" ] && read -r line <"$home/env.sh" && [ "$line" = "$(stamp "$1")" ]
}

pip_install() {
    say "pip install $*"
    PIP_USER=0 PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-input --retries 2 \
        --no-deps --no-compile --only-binary :all: --target "$new/site" "$@" >&2
}

loads() { python3 -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1])' "$1"; }

install_libclang() {
    pip_install "libclang==$libclang"
    mkdir "$new/clang"
    mv "$new"/site/clang/native/libclang.* "$new/clang/"
    loads "$new"/clang/libclang.*
    echo "export LIBCLANG_PATH='$home/clang'" >>"$new/env.sh"
}

has_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] && [ "$LIBCLANG_PATH" != "$home/clang" ] && return
    local file
    for file in /usr/lib/llvm*/lib/libclang* /usr/lib{,64,/*-linux-gnu}/libclang* /usr/local/lib/libclang*; do
        case ${file##*/} in libclang.so* | libclang-[0-9]*.so* | libclang.dylib) return 0 ;; esac
    done
    return 1
}

prebuilt() {
    [ "$(uname -s)" = Linux ] || { say "prebuilt: for Linux only" && return 1; }
    local dist=$new/site/highsbox/highs_dist
    pip_install "highsbox==$highsbox"
    mkdir "$new/lib" "$new/include" "$new/pkgconfig"
    # The wheel's OpenBLAS stays behind: libhighs.so does not need it.
    mv "$dist/lib/libhighs.so" "$new/lib/"
    mv "$dist/include/highs" "$new/include/"
    loads "$new/lib/libhighs.so"
    cat >"$new/pkgconfig/highs.pc" <<PC
prefix=$home
Name: HiGHS
Description: Linear optimization software
Version: $highsbox
Libs: -L\${prefix}/lib -lhighs
Cflags: -I\${prefix}/include/highs
PC
    # Cargo compiles anew when PKG_CONFIG_PATH changes, so it is set, not prepended to.
    cat >>"$new/env.sh" <<ENV
export PKG_CONFIG_PATH='$home/pkgconfig'
case :\${LD_LIBRARY_PATH:-}: in
    *:'$home/lib':*) ;;
    *) export LD_LIBRARY_PATH='$home/lib'\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH} ;;
esac
ENV
    install_libclang
    if ! command -v pkg-config >/dev/null && ! command -v pkgconf >/dev/null; then
        pip_install "pkgconf==$pkgconf"
        mkdir "$new/bin"
        mv "$new/site/pkgconf/.bin/pkgconf" "$new/bin/"
        echo "export PKG_CONFIG='$home/bin/pkgconf'" >>"$new/env.sh"
    fi
}

from_source() {
    if command -v cmake >/dev/null && [ "$(command -v cmake)" != "$home/cmake/bin/cmake" ]; then
        say "cmake: $(command -v cmake)"
    else
        pip_install "cmake==$cmake"
        mv "$new/site/cmake/data" "$new/cmake"
        "$new/cmake/bin/cmake" --version >/dev/null
        cat >>"$new/env.sh" <<ENV
case :\$PATH: in *:'$home/cmake/bin':*) ;; *) export PATH='$home/cmake/bin':\$PATH ;; esac
ENV
    fi
    if has_libclang; then say "libclang: of this machine"; else install_libclang; fi
    say "the next cargo build compiles HiGHS once: 8 to 12 CPU-minutes"
}

by_hand() {
    say "HiGHS could not be prepared. Either install cmake, libclang and a C++ compiler by hand"
    say "  (Debian, Ubuntu: apt-get install cmake libclang1 g++) and run this again,"
    say "or do without HiGHS: ROUTEPACK_HIGHS=none here, cargo build --no-default-features elsewhere."
}

if [ "$way" = auto ]; then
    for way in prebuilt source none; do
        prepared "$way" && say "already prepared ($way)" && exit
    done
    for way in prebuilt source; do
        if ROUTEPACK_HIGHS=$way bash "${BASH_SOURCE[0]}"; then exit; fi
        say "way '$way' does not work here"
    done
    by_hand
    exit 1
fi

stamp "$way" >/dev/null
prepared "$way" && say "already prepared ($way)" && exit
if command -v flock >/dev/null; then
    exec 9>"$target/highs.lock"
    flock 9
    prepared "$way" && say "prepared meanwhile ($way)" && exit
fi
trap 'rm -rf "$new"' EXIT
rm -rf "$new" "$old"
mkdir "$new"
stamp "$way" >"$new/env.sh"
features=
case $way in
    prebuilt) prebuilt ;;
    source) from_source ;;
    none) features=--no-default-features ;;
esac
echo "export ROUTEPACK_FEATURES=$features" >>"$new/env.sh"
rm -rf "$new/site"
if [ -e "$home" ]; then mv "$home" "$old"; fi
mv "$new" "$home"
rm -rf "$old"
say "prepared ($way); now: . $home/env.sh"
