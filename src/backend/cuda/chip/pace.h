// The bus of a simulated slower memory (pace.cuh); all rings share its clock. Empty in a normal build.
#pragma once

namespace nibble::cuda {

struct Bus {
#ifdef NIBBLE_PACE
  // On the device: the time up to which the bus is reserved, in 1/1024 ns.
  unsigned long long* clock{nullptr};
#endif
};

#ifdef NIBBLE_PACE
Bus memory_bus();  // the bus of this process (device.cpp)
#else
inline Bus memory_bus() { return {}; }
#endif

}  // namespace nibble::cuda
