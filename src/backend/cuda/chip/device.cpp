#include "backend/cuda/chip/device.h"

#include <array>
#include <mutex>
#include <utility>

#include "backend/backend.h"
#include "backend/cuda/chip/images.h"
#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/chip/wait.h"
#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/program/log.h"
#include "core/system/available_bytes.h"

namespace nibble::cuda {

namespace {

// Returns whether this error makes the process's CUDA context unusable.
bool is_sticky(cudaError_t error) {
  switch (error) {
    case cudaErrorCudartUnloading:
    case cudaErrorDevicesUnavailable:
    case cudaErrorPriorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorMpsRpcFailure:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

}  // namespace

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // clears the error, which a later check would report again
  const std::string text = fmt::format("the GPU failed while {}: {}", what, cudaGetErrorString(error));
  if (is_sticky(error)) throw BackendLost(text);
  throw InputError("{}", text);
}

std::string why_no_device() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver)
    return "no NVIDIA driver, or one too old for CUDA 13, which needs 580 or later";
  if (error != cudaSuccess) return cudaGetErrorString(error);
  if (count == 0) return "no NVIDIA GPU is visible";
  int major = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0),
        "reading its compute capability");
  if (major < 8) return "the GPU is older than compute capability 8.0";
  return {};
}

namespace {

// Returns whether MPS is on: the GPU then runs kernels of several programs at once. Without MPS, programs
// take turns.
bool is_divided(int device) {
  int by_mps = 0;
  if (cudaDeviceGetAttribute(&by_mps, cudaDevAttrMpsEnabled, device) == cudaSuccess) return by_mps != 0;
  static_cast<void>(cudaGetLastError());  // clears the error: the driver may lack this attribute
  return false;
}

DeviceCaps query_caps(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "reading its properties");
  DeviceCaps found = caps_of({properties.name, 10 * properties.major + properties.minor,
                              properties.multiProcessorCount, properties.sharedMemPerBlockOptin,
                              properties.totalGlobalMem, properties.integrated != 0, is_divided(device)});
  if (found.is_divided)
    log::warn(
        "{}: MPS lets other programs run on the GPU at the same time. CTAs of some kernels wait for each "
        "other, so two programs with such kernels can deadlock: run no other program on this GPU, or stop "
        "MPS (echo quit | nvidia-cuda-mps-control)",
        found.name);
  if (!found.is_of_family())
    log::info("{} is sm_{}, for which nibble has no code of its own: it runs the code for {}", found.name,
              found.compute_capability, name(found.family));
  if (const std::optional<SelectedImage> choice = choose_image(images(), found.compute_capability))
    found = with_code_of(std::move(found), choice->image.compute_capability);
  return found;
}

}  // namespace

const DeviceCaps& device_caps() {
  constexpr size_t kMostDevices{64};
  static std::array<std::once_flag, kMostDevices> is_queried;
  static std::array<DeviceCaps, kMostDevices> caps;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) device = 0;  // if this fails, query_caps(0) reports the error
  const size_t index = device;
  NIBBLE_CHECK(index < kMostDevices, "GPU number {}", device);
  std::call_once(is_queried[index], [&] { caps[index] = query_caps(device); });
  return caps[index];
}

size_t device_shared_bytes() { return device_caps().shared_bytes; }

size_t free_device_bytes(const DeviceCaps& caps) {
  if (caps.is_integrated) return available_bytes();
  size_t free_bytes = 0, total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "reading its free memory");
  return free_bytes;
}

void copy_to_device(void* to, const void* from, size_t bytes, const char* what) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), what);
  check(cudaDeviceSynchronize(), what);
}
void fill_on_device(void* to, int byte, size_t bytes, const char* what) {
  check(cudaMemset(to, byte, bytes), what);
  check(cudaDeviceSynchronize(), what);
}

void* DeviceMemory::allocate(size_t bytes) {
  void* data = nullptr;
  check(cudaMalloc(&data, bytes), "allocating its memory");
  return data;
}
void DeviceMemory::release(void* data) { cudaFree(data); }

void* PinnedMemory::allocate(size_t bytes) {
  void* data = nullptr;
  check(cudaMallocHost(&data, bytes), "allocating pinned host memory");
  return data;
}
void PinnedMemory::release(void* data) { cudaFreeHost(data); }

OwnedStream::OwnedStream() {
  stream_.counts = &counts_;
  check(cudaStreamCreateWithFlags(&stream_.handle, cudaStreamNonBlocking), "creating a stream");
}
OwnedStream::~OwnedStream() { cudaStreamDestroy(stream_); }
void OwnedStream::wait() const { wait_for_stream(stream_, "running the model"); }

}  // namespace nibble::cuda
