// Probes the size, the kind and the read speed of the GPU's memory.
#include "backend/cuda/verify/probes/memory.h"

#include <fmt/format.h>

#include <cstdint>

#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/chip/read_bandwidth.h"
#include "backend/cuda/chip/stream_timer.h"
#include "backend/cuda/verify/probes/probes.h"
#include "core/system/available_bytes.h"

namespace nibble::cuda::verify {
namespace {

using Result = ProbeFinding::Result;

int attribute(cudaDeviceAttr which) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, 0), "reading its attributes");
  return value;
}

ProbeFinding bandwidth_finding(double bytes_per_second) {
  return {Result::kOk,
          fmt::format("{:.0f} GB/s", bytes_per_second / 1e9),
          {{"bytes_per_second", bytes_per_second}}};
}

}  // namespace

ProbeFinding probe_plain_reads() { return bandwidth_finding(read_bandwidth()); }

ProbeFinding probe_ring_reads() {
  constexpr size_t kBytes{size_t{2} << 30};
  constexpr int kPasses{6};
  const OwnedStream stream;
  const DeviceBuffer bytes(kBytes), sum(sizeof(uint32_t));
  const size_t num_slots = kBytes / ring_slot_bytes();
  check(cudaMemsetAsync(bytes.as<void>(), 0, kBytes, stream), "measuring its memory");
  // Only the last word of the last slot is not 0. Each pass that reads all slots adds this word to `sum`.
  constexpr uint32_t kMark{5};
  check(cudaMemcpyAsync(bytes.as<uint8_t>() + num_slots * ring_slot_bytes() - sizeof kMark, &kMark,
                        sizeof kMark, cudaMemcpyHostToDevice, stream),
        "measuring its memory");
  check(cudaMemsetAsync(sum.as<void>(), 0, sizeof(uint32_t), stream), "measuring its memory");
  const float best = StreamTimer(stream).least_milliseconds(kPasses, "measuring its memory", [&] {
    read_through_rings(stream, {bytes.as<uint8_t>(), static_cast<int>(num_slots), sum.as<uint32_t>()});
  });
  uint32_t total = 0;
  check(cudaMemcpy(&total, sum.as<void>(), sizeof total, cudaMemcpyDeviceToHost), "copying results");
  if (total != kPasses * kMark)
    return {Result::kOther,
            fmt::format("the rings read wrong bytes: a sum of {}, expected {}", total, kPasses * kMark)};
  return bandwidth_finding(static_cast<double>(num_slots * ring_slot_bytes()) / best * 1e3);
}

ProbeFinding probe_shared_memory() {
  const int of_cta = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin),
            of_multiprocessor = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  const OwnedStream stream;
  const DeviceBuffer last(sizeof(uint32_t));
  touch_shared_memory(stream, of_cta, last.as<uint32_t>());
  stream.wait();
  uint32_t word = 0;
  check(cudaMemcpy(&word, last.as<void>(), sizeof word, cudaMemcpyDeviceToHost), "copying results");
  if (word != 1) return {Result::kOther, fmt::format("its last word is {} after writing 1", word)};
  return {Result::kOk,
          fmt::format("{} bytes per CTA, allocated and written; {} per multiprocessor", of_cta,
                      of_multiprocessor),
          {{"bytes_per_cta", static_cast<double>(of_cta)},
           {"bytes_per_multiprocessor", static_cast<double>(of_multiprocessor)}}};
}

// Reports whether the GPU shares the host's memory, how much memory is free, and what the GPU can do with
// managed and pageable memory. If memory is shared, cudaMemGetInfo() counts the page cache as used, so
// free_device_bytes() returns the host's available bytes. A GPU with shared memory reads managed memory at
// three fifths of the speed of cudaMalloc() memory.
ProbeFinding probe_memory_kind() {
  const bool is_integrated = attribute(cudaDevAttrIntegrated) != 0,
             is_managed_concurrent = attribute(cudaDevAttrConcurrentManagedAccess) != 0,
             reads_pageable = attribute(cudaDevAttrPageableMemoryAccess) != 0,
             registers_host = attribute(cudaDevAttrHostRegisterSupported) != 0;
  const auto total = static_cast<double>(device_caps().total_bytes),
             free = static_cast<double>(free_device_bytes(device_caps()));
  const size_t of_host = available_bytes();
  const double available = of_host == SIZE_MAX ? 0 : static_cast<double>(of_host);  // SIZE_MAX: unknown
  constexpr double kGb{1e9};
  return {Result::kOk,
          fmt::format("{}, {:.1f} GB, {:.1f} free{}; managed memory {}, pageable memory {}",
                      is_integrated ? "shared with the host" : "its own", total / kGb, free / kGb,
                      is_integrated ? fmt::format(", {:.1f} available on the host", available / kGb) : "",
                      is_managed_concurrent ? "concurrent with the host" : "alternating with the host",
                      reads_pageable ? "read" : "not read"),
          {{"is_integrated", is_integrated ? 1.0 : 0},
           {"total_bytes", total},
           {"free_bytes", free},
           {"host_available_bytes", available},
           {"concurrent_managed_access", is_managed_concurrent ? 1.0 : 0},
           {"pageable_memory_access", reads_pageable ? 1.0 : 0},
           {"host_register_supported", registers_host ? 1.0 : 0}}};
}

ProbeFinding probe_device() {
  const int major = attribute(cudaDevAttrComputeCapabilityMajor),
            minor = attribute(cudaDevAttrComputeCapabilityMinor),
            multiprocessors = attribute(cudaDevAttrMultiProcessorCount),
            l2_bytes = attribute(cudaDevAttrL2CacheSize),
            registers = attribute(cudaDevAttrMaxRegistersPerMultiprocessor),
            threads = attribute(cudaDevAttrMaxThreadsPerMultiProcessor),
            bus_bits = attribute(cudaDevAttrGlobalMemoryBusWidth);
  int runtime = 0, driver = 0;
  check(cudaRuntimeGetVersion(&runtime), "reading its versions");
  check(cudaDriverGetVersion(&driver), "reading its versions");
  const auto version = [](int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); };
  return {Result::kOk,
          fmt::format(
              "{}, sm_{}{}: {} multiprocessors, {:.1f} MB of L2, {} bits to memory; CUDA {}, driver for {}",
              device_caps().name, major, minor, multiprocessors, l2_bytes / 1e6, bus_bits, version(runtime),
              version(driver)),
          {{"compute_capability", 10.0 * major + minor},
           {"multiprocessors", static_cast<double>(multiprocessors)},
           {"l2_bytes", static_cast<double>(l2_bytes)},
           {"registers_per_multiprocessor", static_cast<double>(registers)},
           {"threads_per_multiprocessor", static_cast<double>(threads)},
           {"memory_bus_bits", static_cast<double>(bus_bits)},
           {"cuda_runtime", static_cast<double>(runtime)},
           {"cuda_driver", static_cast<double>(driver)}}};
}

}  // namespace nibble::cuda::verify
