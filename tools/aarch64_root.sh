# Sourced by tools/aarch64 and tools/package: what a build for AArch64 needs beyond the source, unpacked in build/. This
# machine's system is unchanged.

kAarch64Packages="g++-aarch64-linux-gnu qemu-user-static"
kAarch64Root=build/aarch64-root

# Unpacks Debian's arm64 packages to $kAarch64Root. Its file `versions` lists them, one per line: name, version, name of the
# source package, version of the source package.
unpack_aarch64_root() {
  local packages package root=$kAarch64Root
  packages=$(printf "%s\n" $kBuildPackages libgtest-dev libgmock-dev | grep -e -dev$)
  [ -e $root/versions ] && [ "$(cat $root/packages)" = "$packages" ] && return 0
  say "Unpacking arm64 packages to $root"
  rm -rf $root
  mkdir -p $root/apt/lists/partial $root/apt/cache/archives/partial
  : >$root/apt/status  # an empty list of installed packages, so that dependencies are fetched too
  local apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State=$PWD/$root/apt
             -o Dir::State::status=$PWD/$root/apt/status -o Dir::Cache=$PWD/$root/apt/cache)
  "${apt[@]}" update
  "${apt[@]}" install -y --no-install-recommends --download-only $packages >/dev/null
  for package in $root/apt/cache/archives/*.deb; do
    dpkg -x "$package" $root
    dpkg-deb -W --showformat='${Package} ${Version} ${source:Package} ${source:Version}\n' "$package"
  done >$root/apt/versions
  mv $root/apt/versions $root/versions
  rm -rf $root/apt
  echo "$packages" >$root/packages
}

# Makes a copy of this machine's CUDA toolkit, as links, in the layout that nvcc and CMake expect for AArch64. The
# headers are the same for both; the runtime library is from NVIDIA's Python package of the same release.
make_aarch64_toolkit() {
  local home release toolkit=build/aarch64-cuda-toolkit
  # nvcc itself reports its location: the one on PATH may be a wrapper script.
  home=$(realpath "$(nvcc --dryrun -c -x cu /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p')")
  release=$(nvcc --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
  [ "$(cat $toolkit/from 2>/dev/null)" = "$release $home" ] && return 0
  rm -rf $toolkit
  mkdir -p $toolkit/bin $toolkit/targets/aarch64-linux
  # One command, because bash ignores `set -e` in a function whose result is tested.
  python3 -m venv $toolkit/venv &&
    $toolkit/venv/bin/pip download -q --disable-pip-version-check --no-deps -d $toolkit --only-binary=:all: \
      --platform manylinux2014_aarch64 "nvidia-cuda-runtime==$release.*" &&
    python3 -m zipfile -e $toolkit/*.whl $toolkit/wheel &&
    mv $toolkit/wheel/nvidia/cu*/lib $toolkit/targets/aarch64-linux/lib &&
    ln -s "$(basename $toolkit/targets/aarch64-linux/lib/libcudart.so.*)" $toolkit/targets/aarch64-linux/lib/libcudart.so &&
    ln -s "$home"/targets/x86_64-linux/include $toolkit/targets/aarch64-linux/include &&
    ln -s "$home"/bin/* $toolkit/bin/ &&
    ln -s "$home"/nvvm $toolkit/nvvm &&
    rm -rf $toolkit/venv $toolkit/wheel $toolkit/*.whl &&
    echo "$release $home" >$toolkit/from
}
