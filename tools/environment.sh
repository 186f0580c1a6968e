# Sourced by ./demo and ./test: what both need from the machine. Package names are those of Debian 12.

kBuildPackages="g++ cmake ninja-build pkg-config ca-certificates git
  libcli11-dev nlohmann-json3-dev libsimdjson-dev libpcre2-dev libfmt-dev libspdlog-dev libboost1.81-dev
  prometheus-cpp-dev libedit-dev libsodium-dev libtomlplusplus-dev libjs-katex libjs-highlight.js"
kTestPackages="libgtest-dev libgmock-dev libbenchmark-dev clang-14 libclang-rt-14-dev clang-format-14
  python3 python3-venv gzip curl ccache mandoc chromium chromium-driver node-typescript buildah"

# So that objects in ccache also serve other clones of the project, and the preset cuda reuses the host objects of
# release.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1

say() { printf '%s\n' "$*" >&2; }

# Records what a run of ./test could not do, and why. ./test prints it at its end (tools/slowest).
leave_out() {
  say "Left out: $*"
  mkdir -p build/report
  printf '%s\n' "$*" >>build/report/left_out
}

# Succeeds if an nvcc that can compile the CUDA backend exists.
has_nvcc() { command -v nvcc >/dev/null && nvcc --version | grep -qE "release (1[3-9]|[2-9][0-9])"; }

# install_packages NAME...: does nothing if all are installed.
install_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "This is no Debian: if the build does not find something, install what Debian calls: $(echo "$@")"
    return 0
  fi
  local missing="" package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
  done
  [ -z "$missing" ] && return 0

  local as_root=""
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      say "These packages are missing, and installing them takes root or sudo:$missing"
      say "As root: apt-get install$missing"
      return 1
    fi
    as_root="sudo"
  fi
  say "Installing:$missing"
  local log
  log=$(mktemp)
  if ! { $as_root apt-get update -qq && $as_root env DEBIAN_FRONTEND=noninteractive \
         apt-get install -qq -y --no-install-recommends $missing; } >"$log" 2>&1 </dev/null; then
    tail -n 15 "$log" >&2
    rm -f "$log"
    say "Installing failed (above: how). The packages are:$missing"
    return 1
  fi
  rm -f "$log"
}

# One compiler per core, but no more than fit into memory: a compiler takes up to 1.5 GB (with a sanitizer).
build_jobs() {
  local cores memory_kb by_memory
  cores=$(nproc)
  memory_kb=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  by_memory=$((memory_kb / 1572864))
  [ "$by_memory" -lt 1 ] && by_memory=1
  [ "$by_memory" -lt "$cores" ] && cores=$by_memory
  echo "$cores"
}
