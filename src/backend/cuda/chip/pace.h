// A slower memory, pretended for the rings of weights (pace.cuh): its bus, whose clock all rings share. Empty in a build that pretends
// nothing.
#pragma once

namespace nibble::cuda {

struct Bus {
#ifdef NIBBLE_PACE
  unsigned long long* clock{nullptr};  // on the device: until when it is booked, in 1/1024 ns
#endif
};

#ifdef NIBBLE_PACE
Bus memory_bus();  // the one of this process (device.cpp)
#else
inline Bus memory_bus() { return {}; }
#endif

}  // namespace nibble::cuda
